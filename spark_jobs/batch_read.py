"""Reads a range of the metadata topic in one Spark batch: the source of the jobs that end by themselves.

Every Kafka partition is one task, which sees its entries in order. The whole range must be in the log.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_jobs.kafka_properties import java_properties
from spark_jobs.settings import KAFKA_SOURCE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPlace:
    """A Kafka cluster and the metadata topic on it; `properties` are librdkafka's."""

    bootstrap_servers: str
    topic: str
    properties: Mapping[str, str] = field(default_factory=dict)


def kafka_options(place: LogPlace) -> dict[str, str]:
    """Options of Spark's Kafka source for any read of the topic. Raises `UntranslatableError`, `OSError`."""
    secured = {f"kafka.{key}": value for key, value in java_properties(place.properties).items()}
    return {**KAFKA_SOURCE, **secured, "kafka.bootstrap.servers": place.bootstrap_servers}


def read_range(session: SparkSession, place: LogPlace, starts: Mapping[int, int], ends: Mapping[int, int]) -> DataFrame:
    """Entries `[starts[p], ends[p])` of each partition p of `ends`: partition, offset, key, value, timestamp_ms."""
    options = kafka_options(place) | {
        # A hole in what was asked for is an error here: nothing of it can be found out later.
        "failOnDataLoss": "true",
        "assign": json.dumps({place.topic: sorted(ends)}),
        "startingOffsets": json.dumps({place.topic: {str(one): starts.get(one, 0) for one in ends}}),
        "endingOffsets": json.dumps({place.topic: {str(one): end for one, end in ends.items()}}),
    }
    entries = session.read.format("kafka").options(**options).load()
    return entries.selectExpr("partition", "offset", "key", "value", "cast(unix_millis(timestamp) as long) as timestamp_ms")
