"""The requests of Kafka that the gateway offers, and their versions: only those whose messages were looked through for addresses.

A request that is not in `APIS` is offered on no port, whatever brokers offer: its answers might name addresses. So is a version above
`last`. `OWN` narrows what the gateway's own node offers, `RELAYED` what relay ports offer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final


class KafkaKey(IntEnum):
    """Numbers of Kafka's requests."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    FIND_COORDINATOR = 10
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    WRITE_TXN_MARKERS = 27
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    INCREMENTAL_ALTER_CONFIGS = 44
    DESCRIBE_QUORUM = 55
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79


@dataclass(frozen=True, slots=True)
class KafkaApi:
    """A request of Kafka 4.3: `first` to `last` are its versions, those from `flexible` on have tagged fields."""

    key: int
    name: str
    first: int
    last: int
    flexible: int

    def is_flexible(self, version: int) -> bool:
        """Whether requests of a version have tagged fields, and answers too."""
        return version >= self.flexible

    def is_answer_tagged(self, version: int) -> bool:
        """Whether answers of a version have tagged fields in their header."""
        return version >= self.flexible and self.key != KafkaKey.API_VERSIONS


_NEVER: Final = 2**15 - 1

APIS: Final[Mapping[int, KafkaApi]] = {
    api.key: api
    for api in (
        KafkaApi(0, "Produce", 3, 13, 9),
        KafkaApi(1, "Fetch", 4, 18, 12),
        KafkaApi(2, "ListOffsets", 1, 11, 6),
        KafkaApi(3, "Metadata", 0, 13, 9),
        KafkaApi(8, "OffsetCommit", 2, 10, 8),
        KafkaApi(9, "OffsetFetch", 1, 10, 6),
        KafkaApi(10, "FindCoordinator", 0, 6, 3),
        KafkaApi(11, "JoinGroup", 0, 9, 6),
        KafkaApi(12, "Heartbeat", 0, 4, 4),
        KafkaApi(13, "LeaveGroup", 0, 5, 4),
        KafkaApi(14, "SyncGroup", 0, 5, 4),
        KafkaApi(15, "DescribeGroups", 0, 6, 5),
        KafkaApi(16, "ListGroups", 0, 5, 3),
        KafkaApi(17, "SaslHandshake", 1, 1, _NEVER),  # after version 0 a login has no frames, so its end would not be seen
        KafkaApi(18, "ApiVersions", 0, 4, 3),
        KafkaApi(19, "CreateTopics", 2, 7, 5),
        KafkaApi(20, "DeleteTopics", 1, 6, 4),
        KafkaApi(21, "DeleteRecords", 0, 2, 2),
        KafkaApi(22, "InitProducerId", 0, 6, 2),
        KafkaApi(23, "OffsetForLeaderEpoch", 2, 4, 4),
        KafkaApi(24, "AddPartitionsToTxn", 0, 5, 3),
        KafkaApi(25, "AddOffsetsToTxn", 0, 4, 3),
        KafkaApi(26, "EndTxn", 0, 5, 3),
        KafkaApi(27, "WriteTxnMarkers", 1, 2, 1),
        KafkaApi(28, "TxnOffsetCommit", 0, 5, 3),
        KafkaApi(29, "DescribeAcls", 1, 3, 2),
        KafkaApi(30, "CreateAcls", 1, 3, 2),
        KafkaApi(31, "DeleteAcls", 1, 3, 2),
        KafkaApi(32, "DescribeConfigs", 1, 4, 4),
        KafkaApi(33, "AlterConfigs", 0, 2, 2),
        KafkaApi(34, "AlterReplicaLogDirs", 1, 2, 2),
        KafkaApi(35, "DescribeLogDirs", 1, 5, 2),
        KafkaApi(36, "SaslAuthenticate", 0, 2, 2),
        KafkaApi(37, "CreatePartitions", 0, 3, 2),
        KafkaApi(38, "CreateDelegationToken", 1, 3, 2),
        KafkaApi(39, "RenewDelegationToken", 1, 2, 2),
        KafkaApi(40, "ExpireDelegationToken", 1, 2, 2),
        KafkaApi(41, "DescribeDelegationToken", 1, 3, 2),
        KafkaApi(42, "DeleteGroups", 0, 2, 2),
        KafkaApi(43, "ElectLeaders", 0, 2, 2),
        KafkaApi(44, "IncrementalAlterConfigs", 0, 1, 1),
        KafkaApi(45, "AlterPartitionReassignments", 0, 1, 0),
        KafkaApi(46, "ListPartitionReassignments", 0, 0, 0),
        KafkaApi(47, "OffsetDelete", 0, 0, _NEVER),
        KafkaApi(48, "DescribeClientQuotas", 0, 1, 1),
        KafkaApi(49, "AlterClientQuotas", 0, 1, 1),
        KafkaApi(50, "DescribeUserScramCredentials", 0, 0, 0),
        KafkaApi(51, "AlterUserScramCredentials", 0, 0, 0),
        KafkaApi(55, "DescribeQuorum", 0, 1, 0),  # version 2 names the controllers' addresses
        KafkaApi(57, "UpdateFeatures", 0, 2, 0),
        KafkaApi(60, "DescribeCluster", 0, 2, 0),
        KafkaApi(61, "DescribeProducers", 0, 0, 0),
        KafkaApi(64, "UnregisterBroker", 0, 0, 0),
        KafkaApi(65, "DescribeTransactions", 0, 0, 0),
        KafkaApi(66, "ListTransactions", 0, 2, 0),
        KafkaApi(68, "ConsumerGroupHeartbeat", 0, 1, 0),
        KafkaApi(69, "ConsumerGroupDescribe", 0, 1, 0),
        KafkaApi(71, "GetTelemetrySubscriptions", 0, 0, 0),
        KafkaApi(72, "PushTelemetry", 0, 0, 0),
        KafkaApi(74, "ListConfigResources", 0, 1, 0),
        KafkaApi(76, "ShareGroupHeartbeat", 1, 1, 0),
        KafkaApi(77, "ShareGroupDescribe", 1, 1, 0),
        KafkaApi(78, "ShareFetch", 1, 2, 0),
        KafkaApi(79, "ShareAcknowledge", 1, 2, 0),
        KafkaApi(80, "AddRaftVoter", 0, 1, 0),
        KafkaApi(81, "RemoveRaftVoter", 0, 0, 0),
        KafkaApi(88, "StreamsGroupHeartbeat", 0, 0, 0),
        KafkaApi(89, "StreamsGroupDescribe", 0, 0, 0),
        KafkaApi(90, "DescribeShareGroupOffsets", 0, 1, 0),
        KafkaApi(91, "AlterShareGroupOffsets", 0, 0, 0),
        KafkaApi(92, "DeleteShareGroupOffsets", 0, 0, 0),
    )
}

OWN: Final[Mapping[int, tuple[int, int]]] = {
    KafkaKey.PRODUCE: (3, 12),  # version 13 names topics by id
    KafkaKey.FETCH: (4, 17),
}
"""What the gateway's own node offers of requests that it serves itself."""

RELAYED: Final[Mapping[int, tuple[int, int]]] = {
    # Later versions name the addresses of new leaders in their answers, which pass unread here.
    KafkaKey.PRODUCE: (3, 9),
    KafkaKey.FETCH: (4, 15),
}
"""What relay ports offer of requests whose later versions may not pass."""

PARTITIONS_OF_LEADERS: Final = frozenset(
    {
        KafkaKey.PRODUCE,
        KafkaKey.FETCH,
        KafkaKey.LIST_OFFSETS,
        KafkaKey.DELETE_RECORDS,
        KafkaKey.OFFSET_FOR_LEADER_EPOCH,
        KafkaKey.WRITE_TXN_MARKERS,
        KafkaKey.DESCRIBE_PRODUCERS,
    }
)
"""Requests that go to the leaders of partitions: the own node offers only those that it serves itself, since it leads no classic one."""

_LOGIN: Final = frozenset({KafkaKey.SASL_HANDSHAKE, KafkaKey.SASL_AUTHENTICATE})

LARGE_ANSWERS: Final = frozenset({KafkaKey.FETCH, KafkaKey.METADATA, KafkaKey.SHARE_FETCH})


@dataclass(frozen=True, slots=True)
class ServedKafkaApi:
    """A request on one kind of ports. Implements `coordinator.adapters.server.contract.ServedApi`."""

    api: KafkaApi
    low: int
    high: int
    is_taken: bool
    """Whether answers are made here, without their header; else they come from a broker and are given with its tagged fields."""

    @property
    def name(self) -> str:
        """Its name in messages."""
        return self.api.name

    @property
    def canonical(self) -> int:
        """Its number."""
        return self.api.key

    @property
    def is_unbounded(self) -> bool:
        """Whether a small request can have a large answer."""
        return self.api.key in LARGE_ANSWERS

    def is_flexible(self, version: int) -> bool | None:
        """Whether a version has tagged fields; None for a version that is not served. Brokers refuse unknown versions of ApiVersions."""
        if self.api.key != KafkaKey.API_VERSIONS and not self.low <= version <= self.high:
            return None
        return self.api.is_flexible(version)

    def is_response_tagged(self, version: int) -> bool:
        """Whether the server adds the tagged fields of an answer's header."""
        return self.is_taken and self.api.is_answer_tagged(version)

    def check(self, version: int, data: bytes, body_offset: int) -> None:
        """Accept any body: who takes the request reads it."""


class PortApis:
    """The requests that one kind of ports serves. Implements `ServedApis`."""

    def __init__(self, narrowed: Mapping[int, tuple[int, int]], taken: Collection[int], hidden: Collection[int]) -> None:
        """`taken` are the requests whose answers are made here; `hidden` ones are not served."""
        self._apis = {
            key: ServedKafkaApi(api, *narrowed.get(key, (api.first, api.last)), key in taken or key in _LOGIN)
            for key, api in APIS.items()
            if key not in hidden
        }

    def find(self, api_key: int) -> ServedKafkaApi | None:
        """Return the request of a number if it is served."""
        return self._apis.get(api_key)

    def api_versions_body(self, _version: int) -> None:
        """Leave ApiVersions to the handler, which asks the broker."""

    def narrowed(self, api_key: int, low: int, high: int) -> tuple[int, int] | None:
        """Return the versions to offer of those that a broker offers, None for none."""
        api = self._apis.get(api_key)
        if api is None or max(low, api.low) > min(high, api.high):
            return None
        # librdkafka finds out by version 0 of Produce, which brokers name and do not serve, how batches may be compressed.
        return (low if api_key == KafkaKey.PRODUCE else max(low, api.low)), min(high, api.high)
