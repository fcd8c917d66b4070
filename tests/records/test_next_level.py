"""A made-up next level adds a number per batch to the hot record: its declaration is enough, the loops stay as they are."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from tests.records.next_level import make_tree, run_in

BEGINNING = """
import numpy as np

from records.committed_files import codec as files
from records.committed_files import file_loops
from records.codec import decode_entry, encode_entry
from records.errors import InvalidRecord
from records.committed_files.layouts import LEADER_EPOCH
from records.committed_files.codec import FileTable, encode_files, files_of, read_files, table_of
from records.history import levels
from records.levels import LEVEL_LATEST
from records.committed_files.lines import LINE_WIDTH
from tests.records.examples import FILE, examples_of

older = {level: encode_entry([FILE], level) for level in levels() if level < LEVEL_LATEST}
plain = table_of([FILE, FILE])
epochs = np.arange(len(plain.lines))
wide = FileTable(plain.heads, plain.first_line, plain.lines.copy())
wide.lines[:, LEADER_EPOCH] = epochs
"""

STORIES = {
    "the number survives, and files of older levels have its default": """
        entries = encode_files(wide, LEVEL_LATEST)
        taken, table = read_files([*entries, *older.values()])
        assert taken == list(range(len(entries) + len(older)))
        assert table.lines.shape[1] == LINE_WIDTH + 1
        assert table.lines[: len(epochs), LEADER_EPOCH].tolist() == epochs.tolist()
        assert not table.lines[len(epochs) :, LEADER_EPOCH].any()
        assert files_of(table) == [FILE] * len(taken)
    """,
    "lines without the number are written with its default, and cost nothing": """
        narrow = FileTable(plain.heads, plain.first_line, np.ascontiguousarray(plain.lines[:, :LINE_WIDTH]))
        entries = encode_files(narrow, LEVEL_LATEST)
        _, table = read_files(entries)
        assert table.lines.tolist() == plain.lines.tolist()
        assert decode_entry(entries[0]) == [FILE] == decode_entry(encode_entry([FILE]))
        assert len(entries[0]) == len(older[LEVEL_LATEST - 1])
    """,
    "a level that lacks the number cannot say it": """
        try:
            encode_files(wide, LEVEL_LATEST - 1)
        except InvalidRecord as error:
            assert "raise the level first" in str(error)
        else:
            raise AssertionError
        assert encode_files(plain, LEVEL_LATEST - 1) == [older[LEVEL_LATEST - 1]] * 2
    """,
    "entries of several records hold it too": """
        records = [*examples_of(LEVEL_LATEST), FILE]
        assert decode_entry(encode_entry(records)) == records
    """,
    "its range is that of the declaration": """
        for epoch, is_lawful in ((-1, True), (2**31 - 1, True), (-2, False), (2**31, False)):
            wide.lines[0, LEADER_EPOCH] = epoch
            try:
                taken, _ = read_files(encode_files(wide, LEVEL_LATEST))
            except InvalidRecord as error:
                assert f"leader_epoch holds {epoch}" in str(error)
                assert not is_lawful
            else:
                assert is_lawful
                assert taken == [0, 1]
    """,
    "coordinators commit, follow, replay and load across the change": """
        from dataclasses import replace

        from coordinator.core.deciding import group
        from coordinator.core.events import SchemaLevel, Unassigned
        from coordinator.core.files.requests import read_lines
        from simulation.fakes.shard_harness import HarnessReplica, World
        from tests.core.build import batch, commit, place, result_of, state_of

        def commits(name):
            rows = [batch(0, 2, sequence=sequence) for sequence in sequences]
            return [commit(f"{name}-{number}", [row, batch(1, 3)]) for number, row in enumerate(rows)]

        def with_number(raw, commands):
            # What a feature that knows the number would do.
            read = read_lines(raw, commands)
            number = np.full((len(read.lines), 1), 9, np.int64)
            return replace(read, lines=np.ascontiguousarray(np.concatenate([read.lines, number], axis=1)))

        world = World()
        first, second = world.add_replica(), world.add_replica()
        for replica in (first, second):
            replica.feed(SchemaLevel(LEVEL_LATEST - 1))
        first.lead()
        first.ask(place())
        sequences = [0, 2]
        first.ask(*commits("old"))
        for replica in (first, second):
            replica.feed(SchemaLevel(LEVEL_LATEST))
        sequences = [4, 6]
        first.ask(*commits("new"))
        group.read_lines = with_number
        sequences = [8, 10, 8]
        wide_answers = first.ask(*commits("wide"))
        assert [result_of(answer).base_offsets for answer in wide_answers] == [[8, 12], [10, 15], [8, 18]]
        assert result_of(wide_answers[2]).duplicates == [True, False]
        second.read()
        replayed = HarnessReplica(World(log=world.log, now_ms=world.now_ms), 9, first.limits, 0, 4)
        replayed.read()
        assert state_of(first.view.state) == state_of(second.view.state) == state_of(replayed.view.state)
        assert replayed.view.void_entries == {}
        values = [value for _, value in world.log if value is not None]
        taken, table = read_files(values)
        numbers = [set(table.lines_of(file)[:, LEADER_EPOCH].tolist()) for file in range(len(table))]
        assert numbers == [{0}, {0}, {0}, {0}, {9}, {9}, {9}]
        # The next leader answers retries of all levels as the first one did.
        group.read_lines = read_lines
        first.feed(Unassigned())
        second.lead()
        sequences = [8, 10, 8]
        assert second.ask(*commits("wide")) == [result_of(answer) for answer in wide_answers]
        sequences = [0, 2]
        assert [result_of(answer).base_offsets for answer in second.ask(*commits("old"))] == [[0, 0], [2, 3]]
    """,
    "the monitor audits a log across the change": """
        from pathlib import Path
        from tempfile import TemporaryDirectory

        from records.entry_key import EntryKey, encode_key
        from records.model import FeatureLevelSet
        from spark_jobs.store.sink import Store
        from tests.spark.scan_logs import TOPIC, LogWriter, findings, follow, rows

        log = LogWriter()
        log.level = LEVEL_LATEST - 1
        for number in range(7):
            log.commit((0, 2), (1, 1))
        log.level = LEVEL_LATEST
        for number in range(7):
            log.commit((0, 2), (1, 1))
        written = log.file([(2, 3)])
        table = table_of([written])
        table.lines[:, LEADER_EPOCH] = 9
        log.seq += 1
        log.raw(encode_key(EntryKey(log.epoch, log.term, log.seq)), encode_files(table, LEVEL_LATEST)[0])
        log.produce(0)
        with TemporaryDirectory() as name:
            folder = Path(name)
            with Store.open(folder) as store:
                follow(store, log.entries, cuts=[5, 11])
            assert findings(folder) == []
            assert rows(folder, "select name, value from total where name in ('files', 'batches') order by name") == [
                ("batches", 14 * 3 + 3 + 1), ("files", 16),
            ]
    """,
    "verify and the archive read a log across the change": """
        from spark_jobs.archive.rows import archive_function
        from spark_jobs.verify.deletions import Deletions
        from spark_jobs.verify.rebuild import Rebuild
        from tests.spark.scan_logs import TOPIC, LogWriter, arrow

        log = LogWriter()
        for number in range(6):
            log.commit((0, 2), (1, 1))
        rebuild = Rebuild(Deletions())
        for entry in log.entries:
            rebuild.read(entry.offset, entry.key, entry.value)
        rebuild.finish()
        assert rebuild.log.contradictions == {}
        assert rebuild.batches == 18
        found = [row for batch in archive_function({}, {})(iter([arrow(log.entries)])) for row in batch.to_pylist()]
        assert sum(row["batches"] for row in found if row["record"] == "FileCommitted") == 18
    """,
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tree(tmp_path_factory.mktemp("next"))


@pytest.mark.parametrize("story", STORIES)
def test_next_level(story: str, tree: Path) -> None:
    run_in(tree, BEGINNING + dedent(STORIES[story]))
