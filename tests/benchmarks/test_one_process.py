"""The benchmarks of one process run: they put a node together themselves, and would break unseen when its ports change."""

from __future__ import annotations

import asyncio

import pytest

from benchmarks import gateway_fetch, gateway_produce, read_path, request_path
from benchmarks.reads import FIND_ONE
from records.compression import Compression


def test_request_path_prints_the_cost_of_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(request_path.measure([(1, 1)], runs=1, is_read=True, profile=False))
    title, figures = capsys.readouterr().out.splitlines()
    assert "loop us/file" in title
    assert float(figures.split()[-1]) > 0


def test_read_path_prints_the_cost_of_a_read(capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(read_path.measure([(1, 1)], [FIND_ONE], batches=1000, runs=1, profile=False))
    title, figures = capsys.readouterr().out.splitlines()
    assert "us/request" in title
    assert float(figures.split()[-1]) > 0


def test_gateway_produce_prints_the_cost_of_a_megabyte(capsys: pytest.CaptureFixture[str]) -> None:
    gateway_produce.measure([(16 * 1024, Compression.NONE)], megabytes=2)
    title, figures = capsys.readouterr().out.splitlines()
    assert "whole us/MB" in title
    assert float(figures.split()[3]) > 0


def test_gateway_fetch_prints_what_a_megabyte_costs() -> None:
    row = asyncio.run(gateway_fetch.measure(16_384, kind=0, store=None, seconds=0.05))
    taker_ms, whole_ms, rate, reads = map(float, row.split())
    assert min(taker_ms, whole_ms, rate) > 0
    assert reads == 0
