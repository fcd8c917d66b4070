"""`diskless snapshots` and `log prune --dry-run` against a real broker and a real node, which keeps snapshots in a folder."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.dev.kafka import Kafka
from cli.outcome import Exit
from integration_tests.commands import run
from integration_tests.service import UNDISTURBED, Service
from integration_tests.test_semantics_restart import note
from integration_tests.waiting import wait_until
from records.snapshot import SnapshotReader

PARTITIONS = 3
ON_DEMAND = {**UNDISTURBED, "metadata.log.max.snapshot.interval.ms": "0"}
"""No snapshot is due by itself in a test."""


@pytest.fixture(scope="module")
def service(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A node that has committed files."""
    with Service(kafka.bootstrap, tmp_path_factory.mktemp("snapshots"), partitions=PARTITIONS, properties=ON_DEMAND) as service:
        service.start(1)
        asyncio.run(note(service))
        yield service


def store_of(service: Service) -> list[str]:
    return ["--object-store-url", service.properties["object.store.url"]]


def test_snapshots_are_taken_listed_proven_and_fetched(service: Service, tmp_path: Path) -> None:
    assert run(service, "snapshots", "list") == []
    taken = run(service, "snapshots", "take")
    assert [(row["coordinator"], row["error"]) for row in taken] == [(place, None) for place in range(PARTITIONS)]
    listed = run(service, "snapshots", "list")
    assert [(row["coordinator"], row["end_offset"], row["size"]) for row in listed] == [
        (row["coordinator"], row["end_offset"], row["size"]) for row in taken
    ]
    described = run(service, "snapshots", "describe", "0")
    [standing] = described
    assert (standing["leads"], standing["newest_end"], standing["step"], standing["error"]) == (True, taken[0]["end_offset"], None, None)

    proven = run(service, "snapshots", "verify", "--coordinator", "0", *store_of(service))
    assert isinstance(proven, dict)
    assert (proven["good"], proven["end_offset"], proven["digest"]) == (True, taken[0]["end_offset"], listed[0]["digest"])
    assert proven["live_batches"] > 0

    target = tmp_path / "copy.checkpoint"
    words = ["--coordinator", "0", "--to", str(target), *store_of(service)]
    run(service, "snapshots", "download", *words, output=False)
    with SnapshotReader(target) as reader:
        assert reader.head.end_offset == taken[0]["end_offset"]
        assert list(reader.rows())
    run(service, "snapshots", "download", *words, status=Exit.USAGE, output=False)  # it is there already
    assert [path.name for path in tmp_path.iterdir()] == [target.name]

    damaged = Path(service.properties["object.store.url"].removeprefix("file://")) / str(listed[0]["location"])
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:-1])
    verify = ("snapshots", "verify", "--coordinator", "0", *store_of(service))
    told = run(service, *verify, status=Exit.FAILURE, output=False)
    damaged.write_bytes(whole)
    assert "the object was changed or damaged" in told


def test_it_is_told_how_far_the_log_is_pruned_and_what_is_in_the_way(service: Service) -> None:
    def pruned() -> Any:
        return run(service, "log", "prune", "--dry-run")

    wait_until(lambda: all(row["log_start"] == 0 for row in pruned()), "the leader to look at the logs")
    assert all("of 2 snapshots are committed" in str(row["reason"]) for row in pruned()), pruned()
    run(service, "snapshots", "take")
    second = run(service, "snapshots", "take")
    # A node that is alone proves the snapshot itself and prunes to the older one of the newest two.
    wait_until(lambda: all(row["log_start"] > 0 for row in pruned()), "the logs to be pruned")
    assert all(row["log_start"] < one["end_offset"] for row, one in zip(pruned(), second, strict=True))


def test_doctor_tells_of_snapshots(service: Service) -> None:
    run(service, "snapshots", "take")
    found = [one for one in run(service, "doctor") if one["check"] == "snapshots"]
    assert [one["health"] for one in found] == ["ok"], found
    assert f"{PARTITIONS} of {PARTITIONS} coordinators have a snapshot" in found[0]["finding"]


def test_a_coordinator_that_there_is_not_is_refused(service: Service) -> None:
    run(service, "snapshots", "describe", "77", status=Exit.NOT_FOUND)
    words = ["--coordinator", "77", *store_of(service)]
    told = run(service, "snapshots", "download", *words, "--to", "unwanted.checkpoint", status=Exit.NOT_FOUND, output=False)
    assert "there is no coordinator 77" in str(told)
