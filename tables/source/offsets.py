"""Offsets by topic and partition, as options and checkpoints hold them: the JSON of Spark's Kafka source, with the topic's id beside.

    {"orders": {"0": 23, "1": 5, "topicId": "nJuNkJWtS8e_7BzAK5LnfA"}}

A topic that was deleted and created anew has the same name and other records. So checkpoints hold the id, which Kafka's source has not;
in options, where people write offsets, it may be left out. The end of a query's first micro-batch also holds where that batch begins
(`"from": {"0": 10}`): Spark asks a restarted query for its initial offsets again as long as no batch is committed, and `latest` has moved.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from coordinator.kafka.names import parse_topic_id, topic_id_text

EARLIEST: Final = -2
LATEST: Final = -1
_ID: Final = "topicId"
_BEGIN: Final = "from"
_PARTITION_MAX: Final = 2**31 - 1
_OFFSET_MAX: Final = 2**63 - 1


class TopicPlace(NamedTuple):
    """A partition of a topic by name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Positions:
    """The next offset of each partition; `topic_ids` has those that are known.

    `begins` are the offsets at which the batch begins that ends here; it is empty but for the first batch of a stream.
    """

    offsets: Mapping[TopicPlace, int]
    topic_ids: Mapping[str, bytes] = field(default_factory=dict)
    begins: Mapping[TopicPlace, int] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the value that Spark keeps. Equal positions give equal texts: Spark takes another text for new data."""
        made: dict[str, Any] = {}
        for place in sorted(self.offsets):
            made.setdefault(place.topic, {})[str(place.partition)] = self.offsets[place]
        for topic, content in made.items():
            if topic in self.topic_ids:
                content[_ID] = topic_id_text(self.topic_ids[topic])
        for place in sorted(self.begins):
            made.setdefault(place.topic, {}).setdefault(_BEGIN, {})[str(place.partition)] = self.begins[place]
        return made


def read_positions(value: object) -> Positions:
    """Read the JSON value of offsets. Raises ValueError that says what is wrong."""
    if not isinstance(value, dict):
        raise ValueError("it is no JSON object")
    offsets: dict[TopicPlace, int] = {}
    begins: dict[TopicPlace, int] = {}
    topic_ids: dict[str, bytes] = {}
    for topic, content in value.items():
        if not isinstance(content, dict):
            raise ValueError(f"topic {topic!r} has no object of partitions")
        for key, given in content.items():
            if key == _ID:
                topic_ids[topic] = parse_topic_id(given if isinstance(given, str) else repr(given))
            elif key == _BEGIN:
                if not isinstance(given, dict):
                    raise ValueError(f"topic {topic!r}: {_BEGIN!r} has no object of partitions")
                begins |= {TopicPlace(topic, _index(topic, one)): _number(topic, one, offset) for one, offset in given.items()}
            else:
                offsets[TopicPlace(topic, _index(topic, key))] = _number(topic, key, given)
    return Positions(offsets=offsets, topic_ids=topic_ids, begins=begins)


def parse_positions(text: str) -> Positions:
    """Read the text of offsets. Raises ValueError that says what is wrong."""
    return read_positions(_parsed(text))


def parse_places(text: str) -> tuple[TopicPlace, ...]:
    """Read the text of partitions, `{"orders": [0, 1]}`. Raises ValueError that says what is wrong."""
    value = _parsed(text)
    if not isinstance(value, dict) or not all(isinstance(one, list) for one in value.values()):
        raise ValueError("it is no JSON object of lists")
    return tuple(sorted({TopicPlace(topic, _index(topic, one)) for topic, indexes in value.items() for one in indexes}))


def _parsed(text: str) -> object:
    try:
        return json.loads(text, object_pairs_hook=_each_once)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is no JSON: {error}") from error


def _each_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        name = max(names, key=names.count)
        raise ValueError(f"{name!r} is there more than once")
    return found


def _index(topic: str, given: object) -> int:
    if isinstance(given, str) and re.fullmatch("0|[1-9][0-9]{0,9}", given):
        given = int(given)
    if not isinstance(given, int) or isinstance(given, bool) or not 0 <= given <= _PARTITION_MAX:
        raise ValueError(f"topic {topic!r}: {given!r} is no partition")
    return given


def _number(topic: str, key: str, given: object) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or not EARLIEST <= given <= _OFFSET_MAX:
        raise ValueError(f"topic {topic!r}, partition {key}: {given!r} is no offset")
    return given


def places_text(places: Iterable[TopicPlace], *, shown: int = 10) -> str:
    """Name partitions in a sentence, the first ten of many."""
    named = sorted(places)
    more = f" and {len(named) - shown} more" if len(named) > shown else ""
    return ", ".join(map(str, named[:shown])) + more
