"""The loops over CommitFile's bytes: compiled and interpreted they read and write the same, and that of the general codec."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.protocol import commit_loops
from coordinator.protocol.codec import ELEMENTS_MAX, encode
from coordinator.protocol.commit_file import AnswerCells, encode_commit_answers, encode_commit_response
from coordinator.protocol.messages import CommitFileRequest
from coordinator.protocol.wire import STRING_BYTES_MAX
from tests.compiled import plain
from tests.protocol.forms import messages_of

PLAIN = plain(commit_loops)
LOG_APPEND_TIME = 1
INT64 = st.integers(-(2**63), 2**63 - 1)


def _read(data: bytes, offset: int) -> list[object]:
    """What each of both reads."""
    return [read([data], offset, STRING_BYTES_MAX, ELEMENTS_MAX)[0] for read in (commit_loops.read_bodies, PLAIN.read_bodies)]


@given(messages_of(CommitFileRequest), st.binary(max_size=3), st.data())
@settings(max_examples=200)
def test_bodies_whole_and_damaged_are_read_alike(request: CommitFileRequest, before: bytes, data: st.DataObject) -> None:
    raw = encode(request)
    compiled, interpreted = _read(before + raw, len(before))
    assert compiled == interpreted
    assert compiled is not None
    damaged = bytearray(raw)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.sampled_from([0, 1, 2, 77, 127, 128, 255]))
    cut = bytes(damaged[: data.draw(st.integers(0, len(raw)))])
    compiled, interpreted = _read(cut, 0)
    assert compiled == interpreted


LINE = st.tuples(st.integers(0, 1), INT64, st.integers(0, 1), INT64, INT64)
"""Verdict, base offset, timestamp type, log start offset, append time of a duplicate."""


@given(st.lists(st.tuples(INT64, st.lists(LINE, max_size=200)), min_size=1, max_size=5))
def test_answers_are_those_of_the_other_encoder(files: list[tuple[int, list[tuple[int, int, int, int, int]]]]) -> None:
    lines = np.array([line for _, file in files for line in file], np.int64).reshape(-1, 5)
    times = np.array([time for time, _ in files], np.int64)
    first_line = [0, *np.cumsum([len(file) for _, file in files]).tolist()]
    made = encode_commit_answers(lines, AnswerCells(0, 1, 2, 3, 4), times, first_line)
    for (time, file), answer in zip(files, made, strict=True):
        told = [known if verdict else time if kind == LOG_APPEND_TIME else -1 for verdict, _, kind, _, known in file]
        assert answer == encode_commit_response(
            [0] * len(file), [line[1] for line in file], told, [line[3] for line in file], [bool(line[0]) for line in file]
        )
    out = bytearray(commit_loops.RESULT_BYTES * len(lines) + commit_loops.ANSWER_BYTES * len(files))
    starts = PLAIN.write_answers(lines.data, 0, 1, 2, 3, 4, times.data, first_line, out)
    assert bytes(out[: starts[-1]]) == b"".join(made)
    assert starts == np.cumsum([0, *map(len, made)]).tolist()
