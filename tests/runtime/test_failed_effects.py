"""What a replica does for its core may fail, at the limit of threads or of files say: nobody waits for ever, and the state is kept."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator
from typing import cast

from coordinator.core.commands import Answer, Outcome
from coordinator.kafka.errors import ErrorCode
from records.codec import encode_entry
from records.entry_key import EntryKey, encode_key
from records.model import LeadershipClaimed
from simulation.fakes.kafka_log import Fate
from simulation.fakes.state_store import MemoryStateStores
from tests.core.build import TOPIC, place
from tests.runtime.nodes import in_memory, running

REQUEST_MS = 60_000
"""Longer than a test: what is answered is not answered by its timeout."""


async def test_a_term_without_a_producer_ends_and_the_next_one_leads() -> None:
    kafka = in_memory(partitions=1)
    failures: Iterator[Exception] = iter([OSError(errno.EMFILE, "Too many open files"), RuntimeError("can't start new thread")])

    def open_or_fail(what: str, _partition: int) -> None:
        if what == "open" and (failure := next(failures, None)) is not None:
            raise failure

    kafka.on_producer = open_or_fail
    async with running(kafka, MemoryStateStores()) as started:
        await started.leads()
        await started.ask(0, place())
        assert next(failures, None) is None
        assert started.node.keeper.failures[0].last_reason == ""


async def test_an_error_of_the_system_does_not_end_recovery() -> None:
    kafka = in_memory(partitions=1)
    failed: list[str] = []

    async def topic_id(_partition: int) -> None:
        task = asyncio.current_task()
        if task is not None and task.get_name() == "recover-0" and not failed:
            failed.append(task.get_name())
            raise RuntimeError("can't start new thread")

    kafka.before["topic_id"] = topic_id
    async with running(kafka, MemoryStateStores()) as started:
        await started.leads()
    assert failed == ["recover-0"]


async def test_an_effect_that_fails_takes_no_answer_with_it_and_condemns_no_state() -> None:
    kafka = in_memory(partitions=1)

    async with running(kafka, MemoryStateStores()) as started:
        await started.leads()
        await started.ask(0, place())
        former = started.node.replicas[0]
        answers: list[Answer] = []
        # No report comes of what is written from here on.
        usual_fate = kafka.faults.fate_of
        produced: list[int] = []

        def lose(_node: str, _partition: int, seq: int, _value: bytes) -> Fate:
            produced.append(seq)
            return Fate.DROP_SILENTLY

        kafka.faults.fate_of = lose
        for number in range(2, 5):
            former.submit(place(order=number, count=number), REQUEST_MS, answers.append)
        await started.until(lambda: len(produced) == 3, "writes to be on their way")

        def fail(what: str, _partition: int) -> None:
            if what == "abandoned":
                kafka.on_producer, kafka.faults.fate_of = usual
                raise RuntimeError("can't start new thread")

        usual, kafka.on_producer = (kafka.on_producer, usual_fate), fail
        assert former.view is not None
        epoch = former.view.fence.epoch + 1
        claim = LeadershipClaimed(epoch=epoch, term=77, node_id=9, rack="", endpoints=[])
        kafka.append(0, encode_key(EntryKey(epoch, 77, 0)), encode_entry([claim], 1))
        await started.until(lambda: len(answers) == 3, "all that was asked to be answered")
        errors = [outcome.error for answer in answers for outcome in cast("list[Outcome]", answer)]
        assert errors == [ErrorCode.NOT_COORDINATOR] * 3
        await started.until(
            lambda: (new := started.node.replicas[0]) is not former and new.view is not None and new.view.has_partition(TOPIC, 0),
            "another replica with the state of the former one",
        )
        assert started.node.keeper.failures[0].evidence == ""
        assert "an effect was not performed: RuntimeError" in started.node.keeper.failures[0].last_reason
