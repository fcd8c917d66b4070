"""Puts the rooms together: the takers of requests for diskless topics, with what each of them needs of the others."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from coordinator.adapters.kafka.link import BrokerLink, FindPlace
from coordinator.adapters.metrics.histogram import Series
from coordinator.adapters.metrics.registry import Sample
from coordinator.adapters.objectstore import StoreOptionError, open_store
from coordinator.adapters.server.request_memory import RequestMemory
from coordinator.client.client import DisklessClient
from coordinator.client.errors import ServiceError
from coordinator.client.model import PartitionId
from coordinator.errors import DisklessError
from coordinator.kafka.errors import error_name
from coordinator.object_store import ObjectStore
from coordinator.runtime.failures import FatalError
from coordinator.store_mark import WrongStore
from gateway.classic.boundaries import Boundaries
from gateway.classic.leading import LeadingBrokers
from gateway.classic.parts import ClassicParts
from gateway.fetch.limits import FetchLimits, FetchStats
from gateway.fetch.migrated import MigratedReads
from gateway.fetch.ports import PromisedRights
from gateway.fetch.reads import BatchReader
from gateway.fetch.taker import FetchTaker
from gateway.kafka_apis import KafkaApi
from gateway.offsets.exact import ExactOffsets
from gateway.offsets.migrated import MigratedOffsets
from gateway.offsets.takers import offsets_takers
from gateway.ports import Taker
from gateway.produce.buffer import BufferLimits
from gateway.produce.stats import ProduceStats
from gateway.produce.taker import CommittedFile, ProduceHooks, ProduceTaker
from gateway.settings import GatewaySettings
from gateway.tails.finder import Tails
from gateway.topics.catalogue import TopicCatalogue
from gateway.topics.rule import CreationRule
from gateway.topics.shadows import Asks
from gateway.topics.takers import topic_room

PRODUCE_SHARE: Final = 0.36
RELAY_SHARE: Final = 0.08
"""Of `gateway.memory.bytes`: for requests at the gateway's own node and at relay ports; the rest is Fetch's."""
UNFINISHED_SHARE: Final = 0.25
"""Of each of the two: for unfinished requests of other kinds than Produce."""


class Rooms:
    """The rooms of one gateway. Raises `FatalError` for an object store that cannot be used."""

    def __init__(
        self,
        settings: GatewaySettings,
        client: DisklessClient,
        catalogue: TopicCatalogue,
        rights: PromisedRights,
        brokers: Asks,
        connect: Callable[[FindPlace], BrokerLink],
        *,
        leader_of: Callable[[int], int | None],
        series: Callable[[str], Series],
    ) -> None:
        """`brokers` asks with the gateway's own login, as do connections that `connect` makes.

        `leader_of` names the node that leads a coordinator, as far as it is known; `series` is that of a histogram in `gateway.metrics`.
        """
        self._client = client
        self.store = _open(settings)
        memory = settings.gateway_memory_bytes
        self.produce_stats = ProduceStats(
            request_seconds=series("produce_request_seconds"),
            upload_seconds=series("produce_upload_seconds"),
            commit_seconds=series("produce_commit_seconds"),
        )
        self.fetch_stats = FetchStats(read_seconds=series("fetch_store_read_seconds"))
        self.memory = _request_memory(memory * PRODUCE_SHARE, settings.socket_unfinished_max_bytes)
        self.relay_memory = _request_memory(memory * RELAY_SHARE, settings.socket_unfinished_max_bytes)
        limits = FetchLimits.within(int(memory * (1 - PRODUCE_SHARE - RELAY_SHARE)))
        self._reader = BatchReader(self.store, limits, self.fetch_stats, now_ms=lambda: time.time_ns() // 1_000_000)

        def node_of(partition: PartitionId) -> int | None:
            topic = catalogue.identified(partition.topic_id)
            known = topic is not None and partition.partition < len(topic.coordinators)
            return leader_of(topic.coordinators[partition.partition]) if topic is not None and known else None

        self.tails = Tails(client, node_of)
        boundaries = Boundaries(client.admin)
        self._classic = ClassicParts(LeadingBrokers(brokers, connect), limits.classic_bytes)
        both = MigratedReads(boundaries, self._classic)
        self._fetch = FetchTaker(catalogue, rights, self.tails, self._reader, limits, self.fetch_stats, both)
        migrated = MigratedOffsets(catalogue, boundaries, self._classic)
        self._produce = ProduceTaker(
            catalogue,
            rights,
            client,
            self.store,
            memory=self.memory,
            stats=self.produce_stats,
            limits=BufferLimits(
                buffer_bytes=settings.gateway_buffer_bytes,
                buffer_ms=settings.gateway_buffer_ms,
                file_gap_ms=settings.gateway_file_gap_ms,
                files_per_second_max=settings.gateway_files_per_second_max,
            ),
            hooks=ProduceHooks(stored=self._reader.cache.keep_own, committed=self._committed),
            wal_prefix=settings.object_store_wal_prefix,
            uploader_id=settings.gateway_node_id,
        )
        self.topics = topic_room(CreationRule(settings.gateway_create_diskless, settings.metadata_topic), catalogue, client.admin, brokers)
        self.own: Mapping[int, Taker] = {
            **self.topics.everywhere,
            **self.topics.own,
            **offsets_takers(catalogue, rights, client, client.admin, ExactOffsets(client, self.store), migrated),
            KafkaApi.PRODUCE: self._produce,
            KafkaApi.FETCH: self._fetch,
        }
        """By API key, of the gateway's own node."""
        self.relayed: Mapping[int, Taker] = self.topics.everywhere
        """By API key, of relay ports."""

    def _committed(self, file: CommittedFile) -> None:
        self.tails.committed(file.object_key, file.rows, file.base_offsets)

    async def check_store(self, timeout_ms: int) -> bool:
        """Return whether the store is known to be that of the service. Raises `FatalError` when it is another one."""
        try:
            await self._client.check_store(self.store, timeout_ms=timeout_ms)
        except WrongStore as error:
            raise FatalError(str(error)) from error
        except (ServiceError, DisklessError):
            return False
        return True

    def samples(self) -> Iterable[Sample]:
        """Return the counters of the rooms; see `gateway.metrics`."""
        made, read, tails = self.produce_stats, self.fetch_stats, self.tails
        values: dict[str, float] = {
            "produce_requests_total": made.requests,
            "produce_batches_total": made.batches,
            "produce_bytes_total": made.size_bytes,
            "produce_files_total": made.files,
            "produce_file_bytes_total": made.file_bytes,
            "produce_files_refused_total": made.files_refused,
            "produce_uploads_repeated_total": made.uploads_repeated,
            "produce_uploads_given_up_total": made.uploads_given_up,
            "produce_commits_repeated_total": made.commits_repeated,
            "produce_duplicates_total": made.duplicates,
            "produce_timed_out_total": made.timed_out,
            "produce_files_open": self._produce.files_open,
            "fetch_requests_total": self._fetch.requests,
            "fetch_bytes_total": read.bytes_out,
            "fetch_cache_hits_total": read.cache_hits,
            "fetch_cache_misses_total": read.cache_misses,
            "fetch_store_reads_total": read.store_reads,
            "fetch_store_read_bytes_total": read.store_read_bytes,
            "fetch_store_read_failures_total": read.store_read_failures,
            "fetch_damaged_batches_total": read.damaged,
            "fetch_reads_too_late_total": read.reads_too_late,
            "fetch_joined_reads_total": read.joined_reads,
            "fetch_ahead_reads_total": read.ahead_reads,
            "fetch_cached_bytes": read.cached_bytes,
            "fetch_readers_waiting": tails.waiting,
            "fetch_partitions_followed": tails.followed,
            "fetch_polls_total": tails.polls,
            "fetch_classic_bytes_total": self._classic.bytes_read,
            "fetch_classic_failures_total": self._classic.failures,
        }
        for use, memory in (("produce", self.memory), ("relay", self.relay_memory)):
            values[f"{use}_memory_bytes"] = memory.bytes_held
            values[f"{use}_memory_limit_bytes"] = memory.bytes_max
            values[f"{use}_paused"] = memory.is_short
            values[f"{use}_pauses_total"] = memory.shortages
        yield from (Sample(name, (), value) for name, value in values.items())
        waiting = {"tail": read.tail_waiting, "old": read.old_waiting, "answer": read.answers_waiting}
        yield from (Sample("fetch_places_waited_for", (place,), count) for place, count in waiting.items())
        yield from (Sample("produce_refused_total", (error_name(code),), count) for code, count in made.refused.items())
        for client, written in made.by_client.items():
            yield Sample("produce_client_batches_total", (client,), written.batches)
            yield Sample("produce_client_bytes_total", (client,), written.size_bytes)

    async def drain(self, timeout_s: float) -> bool:
        """Write what is buffered; returns whether all of it has an outcome. No more requests may come."""
        return await self._produce.drain(timeout_s)

    async def close(self) -> None:
        """End all work."""
        await self._produce.close()
        await self._fetch.close()
        await self._classic.close()
        await self.tails.close()
        await self._reader.close()


def _request_memory(bytes_max: float, unfinished_max: int) -> RequestMemory:
    unfinished_max = min(unfinished_max, int(bytes_max * UNFINISHED_SHARE))
    return RequestMemory(int(bytes_max), unfinished_max=unfinished_max, waiting_keys=(KafkaApi.PRODUCE,))


def _open(settings: GatewaySettings) -> ObjectStore:
    try:
        return open_store(
            settings.object_store_url, settings.object_store_option, request_timeout_ms=settings.object_store_request_timeout_ms
        )
    except StoreOptionError as error:
        raise FatalError(str(error)) from error
