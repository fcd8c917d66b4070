"""A read that raises while the core answers: whoever was answered before it stays answered, everybody else is refused."""

from __future__ import annotations

import pytest

from coordinator.core.commands import Answer, FoundOffset, ListOffsets, OffsetQuery
from coordinator.core.reads import queries
from coordinator.core.reads.queries import list_offset
from coordinator.core.state.replica_state import ShardState
from coordinator.kafka.errors import ErrorCode
from coordinator.runtime.ports import LogBroken
from simulation.fakes.state_store import MemoryStateStores
from tests.core.build import TOPIC, batch, commit, place, result_of
from tests.runtime.nodes import TIMEOUT_MS, in_memory, running

BAD, GOOD = 5, 6
"""Times to ask for: the first cannot be read."""


def reads(timestamp: int) -> ListOffsets:
    return ListOffsets(queries=[OffsetQuery(topic_id=TOPIC, partition=0, timestamp=timestamp)])


async def test_a_read_that_raises_takes_no_answer_with_it(monkeypatch: pytest.MonkeyPatch) -> None:

    def fails(state: ShardState, query: OffsetQuery) -> FoundOffset:
        if query.timestamp == BAD:
            raise OSError("the disk is broken")
        return list_offset(state, query)

    monkeypatch.setattr(queries, "list_offset", fails)
    async with running(in_memory(partitions=1), MemoryStateStores()) as started:
        await started.leads()
        await started.ask(0, place())
        answers: dict[str, Answer] = {}
        replica = started.node.replicas[0]
        # One group: the commits take effect in their order, and the reads see what was before them.
        for name, command in (
            ("first", commit("first", [batch()])), ("good", reads(GOOD)), ("bad", reads(BAD)), ("behind", reads(GOOD)),
        ):  # fmt: skip
            replica.submit(command, TIMEOUT_MS, lambda answer, name=name: answers.setdefault(name, answer))  # type: ignore[misc]
        await started.until(lambda: len(answers) == 4, "the answers")
    assert result_of(answers["first"]).errors == [0]  # type: ignore[arg-type]
    assert [found.outcome.error for found in answers["good"]] == [ErrorCode.NONE]  # type: ignore[union-attr]
    for name in ("bad", "behind"):
        assert [found.outcome.error for found in answers[name]] == [ErrorCode.NOT_COORDINATOR]  # type: ignore[union-attr]


async def test_a_log_that_cannot_be_read_condemns_no_state() -> None:
    stores = MemoryStateStores()
    async with running(in_memory(partitions=1), stores) as started:
        await started.leads()
        await started.ask(0, place())
        former, keeper = started.node.replicas[0], started.node.keeper
        for generation in range(100):  # only the one that is followed counts
            keeper.on_log_broken(0, generation, LogBroken.FAILED, "reading at offset 3 failed")
        assert former.failure is not None
        await started.until(
            lambda: (new := started.node.replicas[0]) is not former and new.view is not None and new.view.is_leading,
            "another replica to lead",
        )
        assert keeper.failures[0].evidence == ""
        new = started.node.replicas[0]
        assert new.view is not None
        assert new.view.has_partition(TOPIC, 0)


async def test_a_write_that_the_core_does_not_take_fails_the_replica_and_another_writes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    written = ShardState.written
    has_failed = False

    def fails_once(state: ShardState) -> None:
        nonlocal has_failed
        if not has_failed:
            has_failed = True
            raise OSError("not taken")
        written(state)

    async with running(in_memory(partitions=1), MemoryStateStores()) as started:
        await started.leads()
        await started.ask(0, place())
        former = started.node.replicas[0]
        monkeypatch.setattr(ShardState, "written", fails_once)
        assert result_of(await started.ask(0, commit("first", [batch()]))).errors == [0]
        await started.until(
            lambda: (new := started.node.replicas[0]) is not former and new.view is not None and new.view.is_leading,
            "another replica to lead",
        )
        assert "not taken" in started.node.keeper.failures[0].last_reason
        assert result_of(await started.ask(0, commit("second", [batch()]))).base_offsets == [1]
        await started.until(lambda: started.node.replicas[0].writer.written_batches > 0, "the write of another replica")
