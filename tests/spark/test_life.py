"""Signs of life of a monitor: when they move, when they stop, and what an end leaves behind."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from integration_tests.waiting import wait_until
from spark_jobs.monitor.life import LIFE_FILE, Life, life_keeper, read_life, signs_of_life
from spark_jobs.monitor.topic import KafkaUnavailableError
from spark_jobs.monitor.watcher import ReadTimes
from spark_jobs.store.engine import DATABASE, StorePlace, open_reader
from spark_jobs.store.sink import Store


class News:
    """What a watcher knows."""

    answered_ms = 7
    error = "no answer within 4 s"

    def ends(self) -> Mapping[int, int]:
        return {0: 12, 3: 1}

    def read_until_ms(self) -> Mapping[int, int]:
        return {3: 6}


@pytest.fixture
def made(place: StorePlace) -> StorePlace:
    """A store without rows."""
    Store.open(place).close()
    return place


def found(place: StorePlace) -> Life | None:
    with closing(open_reader(place)) as db:
        return read_life(place, db)


def known(place: StorePlace) -> Life:
    life = found(place)
    assert life is not None
    return life


def test_a_sign_comes_back_as_it_was_given(made: StorePlace) -> None:
    life = Life(started_ms=1, alive_ms=2, is_following=True, kafka_ms=3, ends={0: 4, 11: 5}, ended_ms=7, failure="x")
    with life_keeper(made) as keeper:
        assert (keeper.read(), found(made)) == (None, None)
        for one in (replace(life, failure=""), life):
            keeper.write(one)
        assert keeper.read() == life
    assert found(made) == life
    if isinstance(made, Path):
        assert sorted(path.name for path in made.iterdir() if not path.name.startswith(DATABASE)) == [LIFE_FILE]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"ends": {}, "unknown": 1}', '{"ends": 5}'])
def test_what_cannot_be_read_is_no_sign(tmp_path: Path, text: str) -> None:
    Store.open(tmp_path).close()
    (tmp_path / LIFE_FILE).write_text(text)
    assert found(tmp_path) is None


def test_a_starting_job_is_alive_by_itself_and_one_that_follows_only_while_it_looks(made: StorePlace) -> None:
    stopping = Event()
    with signs_of_life(made, stopping, is_once=False, beat_every_s=0.01) as beats:
        first = known(made)
        wait_until(lambda: known(made).alive_ms > first.alive_ms, "the sign")
        assert not known(made).is_following
        news = News()
        beats.watch(news)
        beats.looked()
        wait_until(lambda: known(made).is_following and known(made).kafka_ms == 7, "the sign")
        silent = known(made)
        assert (silent.kafka_error, silent.ends) == ("no answer within 4 s", {0: 12, 3: 1})
        assert silent.read_until_ms == {3: 6}
        news.error = "still no answer"
        wait_until(lambda: known(made).kafka_error == "still no answer", "the sign")
        assert known(made).alive_ms == silent.alive_ms, "nobody looked since"
        stopping.set()  # the last micro-batch may take a while
        wait_until(lambda: known(made).alive_ms > silent.alive_ms, "the sign")
    assert known(made).ended_ms is not None
    assert known(made).failure == ""
    with signs_of_life(made, Event(), is_once=False):
        assert known(made).read_until_ms == {3: 6}, "what the one before read stays read"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("the query failed: x"), "the query failed: x"),
        (KafkaUnavailableError("no answer"), "Kafka: no answer"),
        (KeyError(), "KeyError"),
    ],
)
def test_a_job_that_ended_with_an_error_says_which(made: StorePlace, error: Exception, told: str) -> None:
    with pytest.raises(type(error)), signs_of_life(made, Event(), is_once=True):
        raise error
    assert (known(made).failure, known(made).is_once, known(made).ended_ms is None) == (told, True, False)


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
