"""Loops that read bytes by address: whatever the bytes and the counts say, compiled they do what the interpreter does.

Batches are cut short, have bytes changed and claims of how many they are forged; either both loops end alike or both say
IndexError. `tests/sanitized.py` runs this where a read behind the bytes is seen even when nothing comes of it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from itertools import accumulate
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.core.files import request_loops
from coordinator.core.files.outcomes import DECIDED
from coordinator.core.tables import keyed_loops
from coordinator.core.tables.cells import PARTITION_WIDTH, PRODUCER_WIDTH
from coordinator.core.tables.keyed_loops import KeyedRows
from coordinator.kafka.batches import BATCH, BatchArray, partition_key
from coordinator.protocol import commit_loops as wire_loops
from coordinator.runtime.routing import owner_loops
from records import hash_loops, record_loops
from records.committed_files.codec import topic_halves
from records.committed_files.lines import LINE_WIDTH, VERDICT
from tests.compiled import REPOSITORY, loop_modules, plain
from tests.core.loops_of_files import COMPILED, INTERPRETED

PLAIN_HASH = plain(hash_loops)
PLAIN_OWNER = plain(owner_loops)
PLAIN_ROWS = plain(keyed_loops)
PLAIN_WIRE = plain(wire_loops)
KEYS = [partition_key(bytes([topic]) * 16, partition) for topic, partition in ((1, 0), (1, 1), (2, 0), (2, 2**31 - 1))]
FILE_SIZE = 10_000
NOW_MS = 1_000

Outcome: TypeAlias = tuple[object, ...]
Damage: TypeAlias = tuple[str, int, int]

PRODUCERS = st.sampled_from([-1, -1, 0, 1, 2**62, 2**63 - 1])
BATCHES = st.lists(
    st.tuples(st.integers(0, len(KEYS) - 1), st.integers(1, 40), st.integers(1, 100), PRODUCERS, st.sampled_from([0, 0, 0, 1, 2**31 - 3])),
    max_size=12,
)
DAMAGES = st.lists(
    st.one_of(
        st.tuples(st.just("byte"), st.integers(0, 2000), st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF]) | st.integers(0, 255)),
        st.tuples(st.just("bit"), st.integers(0, 2000), st.integers(0, 7)),
        st.tuples(st.just("int64"), st.integers(0, 200), st.sampled_from([33, 41, 49, 58])),
        st.tuples(st.just("int32"), st.integers(0, 200), st.sampled_from([25, 29, 68, 72])),
        st.tuples(st.just("cut"), st.integers(0, 200), st.just(0)),
    ),
    max_size=3,
)


def _batches(drawn: list[tuple[int, int, int, int, int]]) -> BatchArray:
    """Batches that are plain, but for producers that come again."""
    batches = np.zeros(len(drawn), BATCH)
    end = 0
    for place, (key, size, count, producer, first) in enumerate(drawn):
        last = (first + count - 1) & 0x7FFFFFFF
        batches[place] = (2, 0, KEYS[key], end, size, 0, count - 1, 7, place & 1, producer, 0, first, last, 0)
        end += size
    return batches


def _damaged(raw: bytes, damages: list[Damage]) -> bytes:
    data = bytearray(raw)
    for kind, where, value in damages:
        if kind == "cut":
            del data[max(0, len(data) - where) :]
        elif data:
            at = where % len(data)
            if kind == "byte":
                data[at] = value
            elif kind == "bit":
                data[at] ^= 1 << value
            elif kind in ("int64", "int32"):
                # The extremes of a number of a batch.
                form, bits = (">q", 63) if kind == "int64" else (">i", 31)
                start = where % (len(data) // BATCH.itemsize + 1) * BATCH.itemsize + value
                if start + (bits + 1) // 8 <= len(data):
                    struct.pack_into(form, data, start, (-(2**bits), 2**bits - 1, -1)[where % 3])
    return bytes(data)


def _outcome(run: Callable[[], Outcome]) -> Outcome:
    try:
        return run()
    except IndexError:
        return (IndexError,)


def _partitions(kind: type[KeyedRows]) -> KeyedRows:
    table = kind(PARTITION_WIDTH)
    for key in KEYS:
        table.set_key(table.take_row(), *topic_halves(key[:16]), int.from_bytes(key[16:]))
    return table


def _read(loops: ModuleType, kind: type[KeyedRows], raw: bytes, counts: list[int]) -> Outcome:
    """Read requests, and decide them if they are lawful."""
    first_line, files = [0, *accumulate(counts)], len(counts)
    lines, hashes = np.full((first_line[-1], LINE_WIDTH), 77, np.int64), bytearray(16 * files)
    faults = loops.read_requests(raw, first_line, [(1, FILE_SIZE)] * files, [[0]] * files, lines.data, memoryview(hashes))
    said: Outcome = (lines.tolist(), faults, bytes(hashes))
    if any(fault for _, fault in faults):
        return said
    partitions, producers = _partitions(kind), kind(PRODUCER_WIDTH)
    producers.reserve(len(lines))
    outcomes = loops.decide_files(lines.data, first_line, NOW_MS, 1 << 62, partitions, producers)
    return (*said, lines.tolist(), outcomes, partitions.array.tolist(), producers.array.tolist())


def _own(loops: ModuleType, raw: bytes, owners: dict[bytes, list[int]]) -> Outcome:
    return (loops.owners_of_files([raw], owners),)


@given(BATCHES, st.lists(st.integers(1, 5), max_size=3), DAMAGES, st.sampled_from([0, 0, 0, 1, -1]))
@settings(max_examples=200)
def test_batches_are_read_alike(drawn: list[tuple[int, int, int, int, int]], cuts: list[int], damages: list[Damage], more: int) -> None:
    counts, left = [], len(drawn)
    for cut in cuts:
        counts.append(min(cut, left))
        left -= counts[-1]
    counts.append(left)
    raw = _damaged(_batches(drawn).tobytes(), damages)
    raw = raw + bytes(BATCH.itemsize * more) if more >= 0 else raw[: -BATCH.itemsize]
    compiled, interpreted = (
        _outcome(partial(_read, loops, kind, raw, counts)) for loops, kind in ((COMPILED, KeyedRows), (INTERPRETED, PLAIN_ROWS.KeyedRows))
    )
    assert compiled == interpreted
    assert (compiled == (IndexError,)) == (len(raw) != len(drawn) * BATCH.itemsize)


@given(BATCHES, DAMAGES, st.lists(st.lists(st.integers(-1, 1), max_size=3), min_size=2, max_size=2))
@settings(max_examples=200)
def test_owners_are_found_alike(drawn: list[tuple[int, int, int, int, int]], damages: list[Damage], rows: list[list[int]]) -> None:
    raw = _damaged(_batches(drawn).tobytes(), damages)
    owners = {bytes([topic]) * 16: row for topic, row in enumerate(rows, 1)}
    compiled, interpreted = (_outcome(partial(_own, loops, raw, owners)) for loops in (owner_loops, PLAIN_OWNER))
    assert compiled == interpreted


def _of(**wrong: int) -> dict[str, int]:
    """How long the arrays of two files of two batches each are, but for what is wrong."""
    return {"lines": 4, "heads": 2, "owners": 2, "hashes": 2, "room": 4, "undo": 2, "accepted": 2} | wrong


BOTH = pytest.mark.parametrize("both", [(COMPILED, KeyedRows), (INTERPRETED, PLAIN_ROWS.KeyedRows)], ids=["compiled", "interpreted"])


def _all(loops: ModuleType, kind: type[KeyedRows], size: dict[str, int]) -> None:
    """Read, decide and apply two files of 40 batches each of a new producer."""
    raw = _batches([(0, 1, 1, producer, 0) for producer in range(80)]).tobytes()
    bounds = np.array([0, 40, 80])
    lines, hashes = np.zeros((20 * size["lines"], LINE_WIDTH), np.int64), memoryview(bytearray(16 * size["hashes"]))
    heads, owners = [(1, FILE_SIZE)] * size["heads"], [[0]] * size["owners"]
    assert loops.read_requests(raw, bounds.tolist(), heads, owners, lines.data, hashes) == [(0, 0), (0, 0)]
    speculative, committed = _partitions(kind), _partitions(kind)
    producers, twins = kind(PRODUCER_WIDTH), kind(PRODUCER_WIDTH)
    producers.reserve(20 * size["room"])
    twins.reserve(80)
    assert loops.decide_files(lines.data, bounds.tolist(), NOW_MS, 1 << 62, speculative, producers) == [DECIDED, DECIDED]
    assert not lines[:, VERDICT].any()
    accepted, undo, fault = np.zeros(size["accepted"], np.int64), np.zeros((20 * size["undo"], 14), np.int64), np.zeros(3, np.int64)
    times = np.array([NOW_MS, NOW_MS])
    stop = loops.apply_files(
        lines.data, bounds.data, 0, 2, times.data, committed, twins, accepted.data, undo.data, fault.data
    )  # fmt: skip
    assert stop == 2


@BOTH
@pytest.mark.parametrize("wrong", ["lines", "heads", "owners", "hashes", "room", "undo", "accepted"])
def test_arrays_that_are_too_short_are_an_index_error(both: tuple[ModuleType, type[KeyedRows]], wrong: str) -> None:
    _all(*both, _of())
    with pytest.raises(IndexError):
        _all(*both, _of(**{wrong: 3 if wrong in ("lines", "room") else 1}))


@pytest.mark.parametrize("loops", [wire_loops, PLAIN_WIRE], ids=["compiled", "interpreted"])
@pytest.mark.parametrize("wrong", ["lines", "cell", "times", "out"])
def test_answers_that_do_not_fit_are_an_index_error(loops: ModuleType, wrong: str) -> None:
    lines, times = np.zeros((2 if wrong == "lines" else 3, LINE_WIDTH), np.int64), np.zeros(1 if wrong == "times" else 2, np.int64)
    lines[:, 3] = 1
    cells = (1, 2, 3, 4, LINE_WIDTH if wrong == "cell" else 5)
    lines[-1, 1] = 1
    out = bytearray(3 * wire_loops.RESULT_BYTES + 2 * wire_loops.ANSWER_BYTES - (14 if wrong == "out" else 0))
    with pytest.raises(IndexError):
        loops.write_answers(lines.data, *cells, times.data, [0, 2, 3], out)


@given(data=st.binary(max_size=300), ends=st.lists(st.integers(-2, 310), max_size=4), size=st.integers(-1, 66), lines=st.integers(0, 4))
@settings(max_examples=300)
def test_forged_stretches_are_hashed_alike(data: bytes, ends: list[int], size: int, lines: int) -> None:
    def hashed(loops: ModuleType) -> Outcome:
        hashes = np.zeros((lines, max(size, 0)), np.uint8)
        try:
            loops.hash_spans(data, np.array(ends, np.int64).data, size, hashes.data)
        except IndexError:
            return ("IndexError",)
        return (hashes.tolist(),)

    assert hashed(hash_loops) == hashed(PLAIN_HASH)


def test_every_loop_that_reads_by_address_is_tried_here() -> None:
    by_address = [source for source in loop_modules() if "char*" in source.with_suffix(".pxd").read_text("utf-8")]
    tried = (request_loops, owner_loops, hash_loops, record_loops)  # the last one by tests/records/test_record_loops.py
    assert by_address == [REPOSITORY / Path(*loops.__name__.split(".")).with_suffix(".py") for loops in tried]
