"""The takers of this room, by API key: those of all ports, and those of the gateway's own node alone."""

from __future__ import annotations

from typing import NamedTuple

from gateway.kafka_apis import KafkaApi
from gateway.ports import Catalogue
from gateway.topics.changing import TopicChanging
from gateway.topics.coordinators import TopicCoordinators
from gateway.topics.creating import TopicCreation
from gateway.topics.refusing import Refusals
from gateway.topics.rule import CreationRule
from gateway.topics.settings import TopicSettings
from gateway.topics.shadows import Asks, Shadows
from gateway.topics.wire import TopicTaker


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
        TopicTaker(KafkaApi.CREATE_TOPICS, creation.answer),
        TopicTaker(KafkaApi.DELETE_TOPICS, changes.delete),
        TopicTaker(KafkaApi.CREATE_PARTITIONS, changes.grow),
        TopicTaker(KafkaApi.DESCRIBE_CONFIGS, settings.describe),
        TopicTaker(KafkaApi.INCREMENTAL_ALTER_CONFIGS, settings.alter_incrementally),
        TopicTaker(KafkaApi.ALTER_CONFIGS, settings.alter_wholly),
        TopicTaker(KafkaApi.ADD_PARTITIONS_TO_TXN, refusals.add_partitions),
        TopicTaker(KafkaApi.SHARE_GROUP_HEARTBEAT, refusals.share_heartbeat),
    ]
    of_own_node = [
        TopicTaker(KafkaApi.SHARE_FETCH, refusals.share_fetch),
        TopicTaker(KafkaApi.SHARE_ACKNOWLEDGE, refusals.share_acknowledge),
        TopicTaker(KafkaApi.DESCRIBE_PRODUCERS, refusals.describe_producers),
        TopicTaker(KafkaApi.DESCRIBE_LOG_DIRS, refusals.describe_log_dirs),
    ]
    return TopicRoom(shadows, creation, {one.api: one for one in everywhere}, {one.api: one for one in of_own_node})
