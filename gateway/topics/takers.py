"""The takers of this room, by API key: those of all ports, and those of the gateway's own node alone."""

from __future__ import annotations

from typing import NamedTuple

from gateway.ports import Catalogue
from gateway.topics.changing import TopicChanging
from gateway.topics.coordinators import TopicCoordinators
from gateway.topics.creating import TopicCreation
from gateway.topics.refusing import Refusals
from gateway.topics.rule import CreationRule
from gateway.topics.settings import TopicSettings
from gateway.topics.shadows import Asks, Shadows
from gateway.topics.wire import (
    ADD_PARTITIONS_TO_TXN,
    ALTER_CONFIGS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    DESCRIBE_CONFIGS,
    DESCRIBE_LOG_DIRS,
    DESCRIBE_PRODUCERS,
    INCREMENTAL_ALTER_CONFIGS,
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
    SHARE_GROUP_HEARTBEAT,
    TopicTaker,
)


class TopicRoom(NamedTuple):
    """The parts of this room that a gateway wires up.

    `everywhere` are the takers of the own node and of relay ports; `own` those that the own node has besides. `creation.metadata` answers
    Metadata requests for which `creation.creates` is true. `shadows.unfinished` names topics that may not be shown as classic ones.
    """

    shadows: Shadows
    creation: TopicCreation
    everywhere: dict[int, TopicTaker]
    own: dict[int, TopicTaker]


def topic_room(rule: CreationRule, catalogue: Catalogue, coordinators: TopicCoordinators, brokers: Asks) -> TopicRoom:
    """Put the room together; `brokers` are asked with the gateway's own login."""
    shadows = Shadows(brokers, catalogue)
    creation = TopicCreation(rule, shadows, catalogue, coordinators)
    settings = TopicSettings(shadows, catalogue, coordinators)
    changes = TopicChanging(shadows, catalogue, coordinators)
    refusals = Refusals(shadows, catalogue)
    everywhere = [
        TopicTaker(CREATE_TOPICS, creation.answer),
        TopicTaker(DELETE_TOPICS, changes.delete),
        TopicTaker(CREATE_PARTITIONS, changes.grow),
        TopicTaker(DESCRIBE_CONFIGS, settings.describe),
        TopicTaker(INCREMENTAL_ALTER_CONFIGS, settings.alter_incrementally),
        TopicTaker(ALTER_CONFIGS, settings.alter_wholly),
        TopicTaker(ADD_PARTITIONS_TO_TXN, refusals.add_partitions),
        TopicTaker(SHARE_GROUP_HEARTBEAT, refusals.share_heartbeat),
    ]
    of_own_node = [
        TopicTaker(SHARE_FETCH, refusals.share_fetch),
        TopicTaker(SHARE_ACKNOWLEDGE, refusals.share_acknowledge),
        TopicTaker(DESCRIBE_PRODUCERS, refusals.describe_producers),
        TopicTaker(DESCRIBE_LOG_DIRS, refusals.describe_log_dirs),
    ]
    return TopicRoom(shadows, creation, {one.api.key: one for one in everywhere}, {one.api.key: one for one in of_own_node})
