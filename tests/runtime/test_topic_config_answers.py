"""Kafka's requests about settings of topics, as nodes answer them: the leader of partition 0 alters, others pass the request on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coordinator.core.commands import ConfigChange, CreateTopics, Outcome, TopicAlteration, WantedTopic
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.topic_configs import ConfigOperation, Retention
from coordinator.operations.kafka_versions import schema_module
from coordinator.operations.table import operation_of
from coordinator.operations.topic_configs import DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS, alter_outcomes, alter_request
from coordinator.protocol.codec import Message
from coordinator.runtime.answers.serving import serve
from coordinator.runtime.ports import PeerUnavailable
from coordinator.runtime.retention.rules import RetentionRules
from records.model import Endpoint
from simulation.fakes.state_store import MemoryStateStores
from tests.core.build import TOPIC
from tests.runtime.nodes import TIMEOUT_MS, Running, in_memory, running

KEEPS = RetentionRules(default=Retention(7, -1))


def change(**settings: str | None) -> TopicAlteration:
    """Changes of the topic `orders`; None deletes; dots are written as underscores."""
    changes = [
        ConfigChange(name.replace("_", "."), ConfigOperation.SET if value is not None else ConfigOperation.DELETE, value)
        for name, value in settings.items()
    ]
    return TopicAlteration("orders", tuple(changes))


async def create(node: Running) -> None:
    """Place the topic `orders` in coordinator 0."""
    wanted = WantedTopic(topic_id=TOPIC, name="orders", num_partitions=1)
    [outcome] = await node.node.replicas[0].ask(CreateTopics(topics=[wanted], eligible={0: 0}), TIMEOUT_MS)  # type: ignore[misc]
    assert isinstance(outcome, Outcome)
    assert outcome.error is ErrorCode.NONE


async def alter(node: Running, *alterations: TopicAlteration, is_dry_run: bool = False) -> list[tuple[ErrorCode, str]]:
    response = await serve(node.node, INCREMENTAL_ALTER_CONFIGS, 1, alter_request(alterations, is_dry_run=is_dry_run))
    return [(one.error, one.message or "") for one in alter_outcomes(response)]


async def describe(node: Running, name: str = "orders", kind: int = 2, keys: tuple[str, ...] | None = None) -> Any:
    """The result for one resource, with synonyms."""
    module = schema_module("describe_configs", 4, "request")
    asked = module.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    response = await serve(node.node, DESCRIBE_CONFIGS, 4, module.DescribeConfigsRequest(resources=(asked,), include_synonyms=True))
    [result] = response.results  # type: ignore[attr-defined]
    return result


def values(result: Any) -> Mapping[str, tuple[str, int]]:
    """Value and source by name."""
    return {one.name: (one.value, one.config_source) for one in result.configs}


async def test_settings_that_were_altered_are_described() -> None:
    async with running(in_memory(), MemoryStateStores(), retention=KEEPS) as node:
        await node.leads()
        await create(node)
        assert values(await describe(node)) == {
            "cleanup.policy": ("delete", 5),
            "max.message.bytes": ("1048588", 5),
            "message.timestamp.after.max.ms": ("3600000", 5),
            "message.timestamp.before.max.ms": ("9223372036854775807", 5),
            "message.timestamp.type": ("CreateTime", 5),
            "retention.bytes": ("-1", 5),
            "retention.ms": ("7", 4),
        }
        assert await alter(node, change(retention_ms="9", retention_bytes="4")) == [(ErrorCode.NONE, "")]
        assert await alter(node, change(retention_bytes=None)) == [(ErrorCode.NONE, "")]
        assert await alter(node, change(retention_bytes="5"), is_dry_run=True) == [(ErrorCode.NONE, "")]
        found = await describe(node, keys=("retention.ms", "unknown"))
        assert values(found) == {"retention.ms": ("9", 1)}
        [synonyms] = [[(one.name, one.value, one.source) for one in config.synonyms] for config in found.configs]
        assert synonyms == [("retention.ms", "9", 1), ("log.retention.ms", "7", 4)]
        assert values(await describe(node))["retention.bytes"] == ("-1", 5)


async def test_what_is_no_topic_is_refused_alone() -> None:
    async with running(in_memory(), MemoryStateStores()) as node:
        await node.leads()
        await create(node)
        module = schema_module("incremental_alter_configs", 1, "request")
        config = module.AlterableConfig(name="retention.ms", config_operation=0, value="1")
        asked = ((4, "1"), (2, "orders"))
        resources = tuple(module.AlterConfigsResource(resource_type=kind, resource_name=name, configs=(config,)) for kind, name in asked)
        request = module.IncrementalAlterConfigsRequest(resources=resources, validate_only=False)
        told = alter_outcomes(await serve(node.node, INCREMENTAL_ALTER_CONFIGS, 1, request))
        assert [one.error for one in told] == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
        assert "only topics" in (told[0].message or "")
        assert (await describe(node, "1", kind=4)).error_code.value == ErrorCode.INVALID_REQUEST
        assert (await describe(node, "nobody")).error_code.value == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class ToFirst:
    """The way from the second node to the first."""

    def __init__(self) -> None:
        self.first: Running | None = None

    async def call(self, host: str, port: int, request: Message, timeout_ms: int) -> Message:
        if host != "one" or self.first is None:
            raise PeerUnavailable(f"nobody listens at {host}:{port}")
        operation, version = operation_of(type(request))
        return await serve(self.first.node, operation, version, request)


async def test_a_node_that_does_not_lead_the_directory_passes_the_request_on() -> None:
    kafka, peers = in_memory(), ToFirst()
    async with running(kafka, MemoryStateStores()) as first:
        await first.leads()
        await create(first)
        where = [Endpoint(listener="PLAINTEXT", host="two", port=9192)]
        async with running(
            kafka, MemoryStateStores(), name="2", peers=peers, node_id=2, endpoints=where, incarnation_id=b"2" * 16
        ) as second:
            await second.until(lambda: second.node.view.leader(0) is not None, "the leader to be known")
            [(error, says)] = await alter(second, change(retention_ms="9"))
            assert error is ErrorCode.REQUEST_TIMED_OUT
            assert "repeating is safe" in says
            peers.first = first
            assert await alter(second, change(retention_ms="9")) == [(ErrorCode.NONE, "")]
            assert values(await describe(second))["retention.ms"] == ("9", 1)
