"""A recording gives back what was recorded."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from integration_tests.history import FoundBatch
from integration_tests.recording import read_recording, write_recording
from tests.faults.test_checker import WHERE, good


def test_a_recording_is_read_as_it_was_written(tmp_path: Path) -> None:
    history, final = good()
    assert history.finds
    assert history.deletions
    assert history.start_reads
    assert history.descriptions
    assert isinstance(final.copies[1][WHERE][0], FoundBatch)
    write_recording(tmp_path / "history.jsonl.gz", history, final)
    assert read_recording(tmp_path / "history.jsonl.gz") == (history, final)


def test_a_run_without_an_end_has_no_final_state(tmp_path: Path) -> None:
    history, _ = good()
    write_recording(tmp_path / "history.jsonl.gz", history, None)
    assert read_recording(tmp_path / "history.jsonl.gz") == (history, None)


def test_an_unknown_line_is_refused(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "history.jsonl.gz", "wt") as out:
        out.write('{"kind": "poem"}\n')
    with pytest.raises(ValueError, match="poem"):
        read_recording(tmp_path / "history.jsonl.gz")
