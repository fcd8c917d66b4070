"""Signs of life of a monitor: when they move, when they stop, and what an end leaves behind."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from threading import Event

import pytest

from integration_tests.waiting import wait_until
from spark_jobs.monitor.life import LIFE_FILE, Life, read_life, signs_of_life, write_life
from spark_jobs.monitor.topic import KafkaUnavailableError
from spark_jobs.monitor.watcher import ReadTimes


class News:
    """What a watcher knows."""

    answered_ms = 7
    error = "no answer within 4 s"

    def ends(self) -> Mapping[int, int]:
        return {0: 12, 3: 1}

    def read_until_ms(self) -> Mapping[int, int]:
        return {3: 6}


def known(folder: Path) -> Life:
    life = read_life(folder)
    assert life is not None
    return life


def test_a_sign_comes_back_as_it_was_given(tmp_path: Path) -> None:
    life = Life(started_ms=1, alive_ms=2, is_following=True, kafka_ms=3, ends={0: 4, 11: 5}, ended_ms=7, failure="x")
    write_life(tmp_path, life)
    assert read_life(tmp_path) == life
    assert [path.name for path in tmp_path.iterdir()] == [LIFE_FILE]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"ends": {}, "unknown": 1}', '{"ends": 5}'])
def test_what_cannot_be_read_is_no_sign(tmp_path: Path, text: str) -> None:
    assert read_life(tmp_path) is None
    (tmp_path / LIFE_FILE).write_text(text)
    assert read_life(tmp_path) is None


def test_a_starting_job_is_alive_by_itself_and_one_that_follows_only_while_it_looks(tmp_path: Path) -> None:
    stopping = Event()
    with signs_of_life(tmp_path, stopping, is_once=False, beat_every_s=0.01) as beats:
        first = known(tmp_path)
        wait_until(lambda: known(tmp_path).alive_ms > first.alive_ms, "the sign")
        assert not known(tmp_path).is_following
        beats.watch(News())
        beats.looked()
        wait_until(lambda: known(tmp_path).is_following and known(tmp_path).kafka_ms == 7, "the sign")
        silent = known(tmp_path)
        assert (silent.kafka_error, silent.ends) == ("no answer within 4 s", {0: 12, 3: 1})
        assert silent.read_until_ms == {3: 6}
        written_ns = (tmp_path / LIFE_FILE).stat().st_mtime_ns
        wait_until(lambda: (tmp_path / LIFE_FILE).stat().st_mtime_ns > written_ns, "the sign")
        assert known(tmp_path).alive_ms == silent.alive_ms, "nobody looked since"
        stopping.set()  # the last micro-batch may take a while
        wait_until(lambda: known(tmp_path).alive_ms > silent.alive_ms, "the sign")
    assert known(tmp_path).ended_ms is not None
    assert known(tmp_path).failure == ""
    with signs_of_life(tmp_path, Event(), is_once=False):
        assert known(tmp_path).read_until_ms == {3: 6}, "what the one before read stays read"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("the query failed: x"), "the query failed: x"),
        (KafkaUnavailableError("no answer"), "Kafka: no answer"),
        (KeyError(), "KeyError"),
    ],
)
def test_a_job_that_ended_with_an_error_says_which(tmp_path: Path, error: Exception, told: str) -> None:
    with pytest.raises(type(error)), signs_of_life(tmp_path, Event(), is_once=True):
        raise error
    assert (known(tmp_path).failure, known(tmp_path).is_once, known(tmp_path).ended_ms is None) == (told, True, False)


def test_a_partition_is_read_until_the_newest_look_whose_end_was_merged() -> None:
    read = ReadTimes()
    read.look({0: 5, 1: 0}, {0: 5, 1: 0}, 1000)
    assert read.read_until_ms == {0: 1000, 1: 1000}
    read.look({0: 5, 1: 0}, {0: 9, 1: 0}, 2000)
    assert read.read_until_ms == {0: 1000, 1: 2000}
    read.look({0: 8, 1: 0}, {0: 20, 1: 3}, 3000)
    assert read.read_until_ms == {0: 1000, 1: 2000}, "the entry at 8 is one of those seen at 2000"
    read.look({0: 9, 1: 3}, {0: 30, 1: 3}, 4000)
    assert read.read_until_ms == {0: 2000, 1: 4000}, "under load a partition is read up to a look, though never to its end"
    read.look({0: 30, 1: 3}, {0: 30, 1: 3}, 5000)
    assert read.read_until_ms == {0: 5000, 1: 5000}
