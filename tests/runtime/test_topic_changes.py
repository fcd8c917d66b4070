"""What changed of the topics since an offset: complete whatever happens between two questions, and bounded."""

from __future__ import annotations

import random

import pytest

from coordinator.core.directory.directory import Directory, apply_directory
from coordinator.core.directory.topic_settings import configured
from coordinator.runtime.routing.topic_changes import ChangesOfTopics
from records.model import PlacedRange, TopicDeleting, TopicPlaced


def placed(topic: int, count: int = 1, *, confirmed: bool = True) -> TopicPlaced:
    ranges = [PlacedRange(coordinator_id=0, first_partition=0, num_partitions=count, classic_pending=False)]
    return TopicPlaced(topic_id=bytes([topic]) * 16, name=f"t{topic}", ranges=ranges, confirmed=confirmed)


def listed(directory: Directory) -> dict[bytes, tuple[str, int, dict[str, str]]]:
    return {
        topic_id: (one.name, one.num_partitions, dict(directory.topic_settings.get(topic_id, {})))
        for topic_id, one in directory.placements.items()
    }


def test_nothing_is_known_of_before_the_first_question() -> None:
    changes, directory = ChangesOfTopics(), Directory()
    apply_directory(directory, placed(1), 5)
    assert changes.since(-1, directory, 9) is None
    assert changes.since(8, directory, 9) is None
    assert changes.since(9, directory, 9) == []


def test_a_confirmation_is_no_change() -> None:
    changes, directory = ChangesOfTopics(), Directory()
    apply_directory(directory, placed(1, confirmed=False), 5)
    assert changes.since(5, directory, 5) == []
    apply_directory(directory, placed(1), 6)
    changes.directory_changed()
    assert changes.since(5, directory, 6) == []


@pytest.mark.parametrize("seed", range(20))
def test_who_follows_the_changes_has_the_listing(seed: int) -> None:
    """Followers ask at different times; replicas are built anew; some followers come late and get everything."""
    rng = random.Random(seed)
    changes, directory = ChangesOfTopics(remembered_max=rng.choice([3, 1_000])), Directory()
    followers: list[tuple[int, dict[bytes, tuple[str, int, dict[str, str]]]]] = [(-1, {})] * 3
    wholes = 0
    for offset in range(300):
        topic = rng.randrange(12)
        topic_id = bytes([topic]) * 16
        match rng.randrange(6):
            case 0 | 1:
                count = directory.placements[topic_id].num_partitions if topic_id in directory.placements else 0
                apply_directory(directory, placed(topic, count + rng.randrange(2) or 1, confirmed=rng.random() < 0.5), offset)
            case 2:
                apply_directory(directory, configured(topic_id, {"retention.ms": str(rng.randrange(3))}), offset)
            case 3 if topic_id in directory.placements:
                apply_directory(directory, TopicDeleting(topic_id=topic_id, confirmed=False), offset)
            case 4:
                directory = directory.copy()  # a replica that is built anew
        changes.directory_changed()
        asking = rng.randrange(6)
        if asking < len(followers):
            since, known = followers[asking]
            changed = changes.since(since, directory, offset)
            now = listed(directory)
            if changed is None:
                wholes += 1
                known = now
            else:
                known = {i: one for i, one in known.items() if i not in changed} | {i: now[i] for i in changed if i in now}
            assert known == now
            followers[asking] = (offset, known)
    assert wholes < 100
