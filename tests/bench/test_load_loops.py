"""What the load does to every request and answer, against the codec, compiled and as it stands."""

from __future__ import annotations

from array import array

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.bench import load_loops
from cli.bench.workload import Shape, Workload
from coordinator.kafka.batches import SEQUENCE_MASK, partition_key
from coordinator.protocol.commit_file import decode_commit_file, encode_commit_response
from coordinator.protocol.framing import read_request_header
from tests.compiled import plain

BOTH = [load_loops, plain(load_loops)]
HEAD_BYTES = 5


def answer(count: int, *, errors: tuple[int, ...] = (), duplicates: tuple[int, ...] = (), texts: tuple[int, ...] = ()) -> bytes:
    """A reply frame with results of all kinds at the given places."""
    body = encode_commit_response(
        [3 if at in errors else 0 for at in range(count)],
        [at * 7 for at in range(count)],
        [-1] * count,
        [0] * count,
        [at in duplicates for at in range(count)],
        dict.fromkeys(texts, "why"),
    )
    return bytes(HEAD_BYTES) + body


@pytest.mark.parametrize("loops", BOTH, ids=["compiled", "plain"])
@given(count=st.integers(0, 300))
def test_plain_answers_are_counted(loops: object, count: int) -> None:
    assert loops.plain_results(memoryview(answer(count)), HEAD_BYTES) == count  # type: ignore[attr-defined]


@pytest.mark.parametrize("loops", BOTH, ids=["compiled", "plain"])
@given(data=st.data(), count=st.integers(1, 200), kind=st.sampled_from(["errors", "duplicates", "texts"]))
def test_errors_and_duplicates_are_for_the_general_decoder(loops: object, data: st.DataObject, count: int, kind: str) -> None:
    place = data.draw(st.integers(0, count - 1))
    frame = answer(count, errors=(place,) if kind == "errors" else (), duplicates=(place,) if kind == "duplicates" else (),
                   texts=(place,) if kind == "texts" else ())  # fmt: skip
    assert loops.plain_results(memoryview(frame), HEAD_BYTES) == -1  # type: ignore[attr-defined]


@pytest.mark.parametrize("loops", BOTH, ids=["compiled", "plain"])
@given(data=st.data(), count=st.integers(0, 40))
def test_cut_and_lengthened_answers_are_for_the_general_decoder(loops: object, data: st.DataObject, count: int) -> None:
    frame = answer(count)
    cut = data.draw(st.integers(0, len(frame) - 1))
    assert loops.plain_results(memoryview(frame[:cut]), HEAD_BYTES) == -1  # type: ignore[attr-defined]
    assert loops.plain_results(memoryview(frame + b"\0"), HEAD_BYTES) == -1  # type: ignore[attr-defined]


@given(
    batches=st.lists(st.tuples(st.integers(0, 5), st.integers(1, 1000)), max_size=20),
    sequences=st.lists(st.integers(0, SEQUENCE_MASK), min_size=6, max_size=6),
)
def test_sequences_go_on_and_around(batches: list[tuple[int, int]], sequences: list[int]) -> None:
    places = array("q", [8 * at for at in range(len(batches))])
    slots, counts = array("q", [slot for slot, _ in batches]), array("q", [count for _, count in batches])
    seen = []
    for loops in BOTH:
        frame, following = bytearray(8 * len(batches)), array("q", sequences)
        loops.put_sequences(memoryview(frame), memoryview(places), memoryview(slots), memoryview(counts), memoryview(following))
        seen.append((bytes(frame), following.tolist()))
    assert seen[0] == seen[1]
    written = np.frombuffer(seen[0][0], ">i4").reshape(-1, 2).tolist()
    expected = list(sequences)
    for (slot, count), (first, last) in zip(batches, written, strict=True):
        assert (first, last) == (expected[slot], (expected[slot] + count - 1) & SEQUENCE_MASK)
        expected[slot] = (last + 1) & SEQUENCE_MASK
    assert seen[0][1] == expected


def test_every_frame_is_a_new_file_whose_producers_go_on() -> None:
    keys = [partition_key(bytes(16), number) for number in range(4)]
    workload = Workload(Shape(batches_per_file=30, partitions=4, idempotent_share=0.8), keys, [0], seed=1, templates=2)
    following: dict[int, int] = {}
    object_keys = set()
    for number in range(1, 9):
        frame = workload.next_frame(number)[4:]
        head = read_request_header(frame, flexible=True)
        file = decode_commit_file(frame, head.body_offset)
        assert head.correlation_id == number
        object_keys.add(file.object_key)
        for row in file.batches:
            if row["producer_id"] >= 0:
                producer = int(row["producer_id"])
                assert int(row["base_sequence"]) == following.get(producer, 0)
                following[producer] = (int(row["last_sequence"]) + 1) & SEQUENCE_MASK
                assert int(row["last_sequence"]) - int(row["base_sequence"]) == int(row["last_offset"]) - int(row["base_offset"])
    assert len(object_keys) == 8
    assert following
