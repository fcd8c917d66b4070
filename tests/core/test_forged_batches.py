"""Loops that read bytes by address: whatever the bytes and the counts say, compiled they do what the interpreter does.

Batches are cut short, have bytes changed and claims of how many they are forged; either both loops end alike or both say
IndexError. `tests/sanitized.py` runs this where a read behind the bytes is seen even when nothing comes of it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from hypothesis import example, given, settings
from hypothesis import strategies as st

from coordinator.core.files import commit_loops
from coordinator.core.tables import scratch
from coordinator.kafka.batches import BATCH, BatchArray, partition_key
from coordinator.runtime import owner_loops
from records import file_tables
from tests.compiled import REPOSITORY, loop_modules, plain

PLAIN_COMMIT = plain(commit_loops)
PLAIN_OWNER = plain(owner_loops)
SLOTS = 8
KEYS = [partition_key(bytes([topic]) * 16, partition) for topic, partition in ((1, 0), (1, 1), (2, 0), (2, 2**31 - 1))]
INDEX = {key: row for row, key in enumerate(KEYS)}
FILE_SIZE = 10_000

Outcome: TypeAlias = tuple[object, ...]
Damage: TypeAlias = tuple[str, int, int]

PRODUCERS = st.sampled_from([-1, -1, 0, 1, 2**62, 2**63 - 1])
BATCHES = st.lists(
    st.tuples(st.integers(0, len(KEYS) - 1), st.integers(1, 40), st.integers(1, 100), PRODUCERS, st.sampled_from([0, 0, 0, 1, 2**31 - 3])),
    max_size=12,
)
PLACES = st.sampled_from([0, 0, 0, 0, -1, 1])
"""How many places the columns have more than there are batches."""
DAMAGES = st.lists(
    st.one_of(
        st.tuples(st.just("byte"), st.integers(0, 2000), st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF]) | st.integers(0, 255)),
        st.tuples(st.just("bit"), st.integers(0, 2000), st.integers(0, 7)),
        st.tuples(st.just("int64"), st.integers(0, 200), st.sampled_from([33, 41, 49, 58])),
        st.tuples(st.just("int32"), st.integers(0, 200), st.sampled_from([25, 29, 68, 72])),
        st.tuples(st.just("cut"), st.integers(0, 200), st.just(0)),
        st.tuples(st.just("count"), st.integers(0, 5), st.sampled_from([-(2**63), -1, 0, 1, 2, 100, 2**31, 2**62, 2**63 - 1])),
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


def _damaged(raw: bytes, counts: list[int], damages: list[Damage]) -> tuple[bytes, list[int]]:
    data, counts = bytearray(raw), list(counts)
    for kind, where, value in damages:
        if kind == "count" and counts:
            counts[where % len(counts)] = value
        elif kind == "cut":
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
    return bytes(data), counts


def _outcome(run: Callable[[], Outcome]) -> Outcome:
    try:
        return run()
    except IndexError:
        return (IndexError,)


def _numbers(length: int) -> memoryview[int]:
    return memoryview(bytearray(8 * length)).cast("q")


def _table(rows: int, places: int) -> npt.NDArray[np.int64]:
    return np.zeros((rows, places), np.int64)


def _read(loops: ModuleType, raw: bytes, counts: list[int], places: int, index: dict[bytes, int] | None) -> Outcome:
    topics: list[list[bytes]] = []
    files = _table(scratch.FILE_ROWS, len(counts))
    files[file_tables.BATCHES_OF_FILE], files[scratch.FILE_SIZE] = counts, FILE_SIZE
    tables = [_table(rows, places) for rows in (scratch.COLUMNS, scratch.BATCH_ROWS, scratch.RUN_ROWS)]
    made = [table.data for table in (files, *tables)]
    found = loops.read_batches(raw, len(counts), 1_000, index, _numbers(256), *made, topics)
    return found, topics, *[table.tolist() for table in (files, *tables)]


def _produce(loops: ModuleType, raw: bytes, file_of: list[int], row: list[int], count: list[int], table: list[int]) -> Outcome:
    places = len(file_of)
    known = {0: {0: 3, 2**63 - 1: 5}, 1: {1: 6, 2**62: 0}}
    owner, producer = [1, 0, 0, 0, 0, 0, 1, 0], [2**62, 0, 0, 0, 0, 2**63 - 1, 1, 0]
    epochs, heads, last = [0] * SLOTS, [slot % 5 for slot in range(SLOTS)], (table * 5 * SLOTS)[: 5 * SLOTS]
    tables = [np.array(column, np.int64).data for column in (owner, producer, epochs, heads, last)]
    guesses, mark = np.arange(4).data, _numbers(SLOTS)
    files, columns = _table(scratch.FILE_ROWS, max(file_of, default=0) + 1), _table(scratch.COLUMNS, places)
    batches, idempotent = _table(scratch.BATCH_ROWS, places), _table(scratch.IDEMPOTENT_ROWS, places)
    producers = _table(scratch.PRODUCER_ROWS, places + 1)
    columns[scratch.FILE_OF], columns[scratch.COUNT], batches[scratch.ROW] = file_of, count, row
    made = [table.data for table in (files, columns, batches, idempotent, producers)]
    found = loops.read_producers(raw, known, guesses, *tables, mark, *made)
    return found, *[table.tolist() for table in (guesses, mark, files, idempotent, producers)]


def _own(loops: ModuleType, raw: bytes, owners: dict[bytes, int]) -> Outcome:
    return (loops.common_owner(raw, owners),)


@given(BATCHES, st.lists(st.integers(1, 5), max_size=4), DAMAGES, st.booleans(), PLACES)
@example([(0, 1, 1, -1, 0)], [1], [("count", 0, 2)], True, 0)
@settings(max_examples=300)
def test_batches_are_read_alike(
    drawn: list[tuple[int, int, int, int, int]], cuts: list[int], damages: list[Damage], knows: bool, more_places: int
) -> None:
    counts, left = [], len(drawn)
    for cut in cuts:
        counts.append(min(cut, left))
        left -= counts[-1]
    counts.append(left)
    raw, counts = _damaged(_batches(drawn).tobytes(), counts, damages)
    places = max(0, len(raw) // BATCH.itemsize + more_places)
    index = INDEX if knows else None
    compiled, interpreted = (_outcome(partial(_read, loops, raw, counts, places, index)) for loops in (commit_loops, PLAIN_COMMIT))
    assert compiled == interpreted
    if not damages and not more_places:
        assert isinstance(compiled[0], int)
        assert compiled[0] >= 0


@given(BATCHES, DAMAGES, st.lists(st.integers(0, 2), min_size=12, max_size=12), PLACES, st.integers(0, 2**31 - 1), st.booleans())
@settings(max_examples=300)
def test_producers_are_read_alike(
    drawn: list[tuple[int, int, int, int, int]], damages: list[Damage], steps: list[int], more_places: int, sequence: int, believes: bool
) -> None:
    raw, _ = _damaged(_batches(drawn).tobytes(), [], damages)
    places = max(0, min(len(raw) // BATCH.itemsize + more_places, len(drawn)))
    file_of = np.cumsum([0, *steps])[:places].tolist()
    row, count = [one[0] for one in drawn[:places]], [one[2] for one in drawn[:places]]
    # What the table remembers is what is sent next, or not.
    table = [(drawn[0][4] - 1 if believes and drawn else sequence) & 0x7FFFFFFF]
    compiled, interpreted = (_outcome(partial(_produce, loops, raw, file_of, row, count, table)) for loops in (commit_loops, PLAIN_COMMIT))
    assert compiled == interpreted


@given(BATCHES, DAMAGES, st.lists(st.integers(0, 2), min_size=len(KEYS), max_size=len(KEYS)))
@settings(max_examples=200)
def test_owners_are_found_alike(drawn: list[tuple[int, int, int, int, int]], damages: list[Damage], owner_of: list[int]) -> None:
    raw, _ = _damaged(_batches(drawn).tobytes(), [], damages)
    owners = dict(zip(KEYS, owner_of, strict=True))
    compiled, interpreted = (_outcome(partial(_own, loops, raw, owners)) for loops in (owner_loops, PLAIN_OWNER))
    assert compiled == interpreted


def test_every_loop_that_reads_by_address_is_tried_here() -> None:
    by_address = [source for source in loop_modules() if "*" in source.with_suffix(".pxd").read_text("utf-8")]
    here = [REPOSITORY / loops.__name__.replace(".", "/") for loops in (commit_loops, owner_loops)]
    assert by_address == [path.with_suffix(".py") for path in here]
