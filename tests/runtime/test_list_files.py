"""Listing files page by page, where several coordinators know the same file."""

from __future__ import annotations

import pytest

from coordinator.runtime.descriptions import Descriptions
from coordinator.runtime.failures import NotReadable
from coordinator.testing.state_store import MemoryStateStores
from tests.core.build import batch, commit, place, result_of
from tests.runtime.nodes import Running, in_memory, running

FILES = {"a": (0,), "b": (0, 1, 2), "c": (1, 2), "d": (2,), "e": (0, 1)}
ALL = [(key, owner) for key, owners in FILES.items() for owner in owners]


async def filled(started: Running) -> Descriptions:
    await started.leads()
    for partition in range(3):
        await started.ask(partition, place(count=1))
    for key, owner in ALL:
        answer = await started.ask(owner, commit(key, [batch(0, 1)], owner_ids=list(FILES[key])))
        assert result_of(answer).errors == [0]
    return Descriptions(started.node)


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 8, 9, 100])
async def test_pages_together_have_every_row_once(limit: int) -> None:
    async with running(in_memory(partitions=3), MemoryStateStores()) as started:
        descriptions = await filled(started)
        rows: list[tuple[str, int]] = []
        after, more = "", True
        while more:
            page, more = descriptions.files([], after, limit)
            keys = [one.file.object_key for one in page]
            assert len(page) >= min(limit, len(ALL) - len(rows))
            # Without the rows of its last key a page is shorter than the limit.
            assert len([key for key in keys if key != keys[-1]]) < limit
            rows += [(one.file.object_key, one.coordinator_id) for one in page]
            after = keys[-1]
        assert rows == ALL
        assert descriptions.files([], "e", 5) == ([], False)


async def test_the_given_coordinators_are_listed_once_and_led_or_not() -> None:
    async with running(in_memory(partitions=3), MemoryStateStores()) as started:
        descriptions = await filled(started)
        found, more = descriptions.files([2, 1, 2], "b", 10)
        assert [(one.file.object_key, one.coordinator_id) for one in found] == [("c", 1), ("c", 2), ("d", 2), ("e", 1)]
        assert not more
        started.node.replicas[2].set_assigned(False)
        started.node.replicas[2].invalidate("injected")
        assert started.node.view.led() == [0, 1]
        assert {one.coordinator_id for one in descriptions.files([], "", 10)[0]} == {0, 1}
        # One that has failed cannot be believed.
        assert descriptions.not_listed([0, 2, 7]) == [2, 7]
        with pytest.raises(NotReadable):
            descriptions.files([2], "", 10)
