"""The state of replicas in the form in which `verify` compares it: state databases, and digests told by nodes."""

from __future__ import annotations

from collections.abc import Iterator, Set
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import apsw
import numpy as np

from cli.outcome import Exit, Failed
from coordinator.adapters.sqlite.logical import LogicalState
from coordinator.core.directory.content import items_of
from coordinator.core.tables.stored_rows import Header
from records.state_digest import EMPTY, Digest, hash_batches, hash_record, key_lanes
from spark_jobs.verify.tally import Group, KeptOfFile, TalliedFile, Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseDigests:
    """Digests of a state database: the one its replica keeps, the one its rows have, and that of its logical state."""

    header: Header
    kept: Digest
    of_rows: Digest
    logical: Digest

    @property
    def is_sound(self) -> bool:
        """Whether the rows are those the replica wrote."""
        return self.kept == self.of_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseReplica:
    """A state database as `verify` compares it. Its state is open, so that every question is about the same moment."""

    state: LogicalState
    name: str
    kpart: int
    offset: int
    digest: Digest
    complaint: str

    def tally(self, wanted: Set[Group]) -> Tally:
        """All of the database's rows."""
        return tally_state(self.state, wanted)[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldReplica:
    """A replica of which a node told the digest only."""

    name: str
    kpart: int
    offset: int
    digest: Digest
    complaint: str = ""

    def tally(self, wanted: Set[Group]) -> None:
        """Return None: the rows of this state are not at hand."""


@contextmanager
def open_state(path: Path) -> Iterator[LogicalState]:
    """Open a state database. Raises `Failed` for its errors."""
    try:
        with closing(LogicalState(path)) as state:
            yield state
    except FileNotFoundError as error:
        raise Failed(str(error), Exit.NOT_FOUND) from error
    except apsw.BusyError as error:
        raise Failed(f"{path}: {error}; retry", Exit.UNAVAILABLE) from error
    except apsw.Error as error:
        raise Failed(f"{path}: {error}") from error


def digests_of(state: LogicalState) -> DatabaseDigests:
    """Compute the digest from the rows, with and without the batches that are being trimmed."""
    tally, trimming = tally_state(state, frozenset())
    logical = tally.digest()
    return DatabaseDigests(
        header=state.header, kept=Digest.from_bytes(state.header.digest), of_rows=logical.plus(trimming), logical=logical
    )


def database_replica(name: str, state: LogicalState) -> DatabaseReplica:
    """A state database to compare."""
    found = digests_of(state)
    complaint = "" if found.is_sound else f"its rows have digest {_hex(found.of_rows)}, but its header says {_hex(found.kept)}"
    return DatabaseReplica(
        state=state,
        name=name,
        kpart=found.header.metadata_partition,
        offset=found.header.applied_offset,
        digest=found.logical,
        complaint=complaint,
    )


def _hex(digest: Digest) -> str:
    return digest.to_bytes().hex()


def tally_state(state: LogicalState, wanted: Set[Group]) -> tuple[Tally, Digest]:
    """All rows of a state, and the digest of the deleted batches that its replica still counts."""
    tally = Tally(wanted)
    for one in state.partitions():
        tally.add_partition(
            one.key,
            high_watermark=one.high_watermark,
            log_start=one.log_start,
            first_offset=one.first_offset,
            prefix_start=one.prefix_start,
            leader_epoch=one.leader_epoch,
            max_timestamp_ms=one.max_timestamp,
            max_timestamp_offset=one.max_timestamp_offset,
        )
        for rows in state.batches(one):
            tally.add_batches(one.key, rows)
    for key, producer in state.producers():
        tally.add_producer(
            key, producer_id=producer.producer_id, epoch=producer.epoch, last_append_ms=producer.last_append_ms, ring=producer.ring
        )
    for file, proofs in state.files():
        # A replica lets go of old results and keeps their hash: what it still has is compared, and where it has none, the hash.
        record_hash = hash_record(file.record) if file.record else proofs.record_proof
        known = TalliedFile(
            object_key=file.object_key,
            file_offset=file.file_id,
            content_hash=file.content_hash,
            size_bytes=file.file_size,
            append_time_ms=file.append_time_ms,
            batches=file.batch_count,
            object_format=file.object_format,
            uploader=file.uploader_broker_id,
            owner_ids=file.owner_ids,
            created_ms=file.created_ms,
            record_hash=record_hash,
        )
        kept = KeptOfFile(record_hash, proofs.record_proof, proofs.lost_batches, proofs.proof)
        tally.add_file(known, file.live_batches, kept)
    for stone in state.tombstones():
        tally.add_tombstone(stone.object_key, reason=stone.reason, time_ms=stone.time_ms, created_ms=stone.created_ms)
    for topic in state.topics():
        tally.add_topic(topic.topic_id, name=topic.name, order_offset=topic.order_offset, deleted_ms=topic.deleted_ms)
    content = state.directory()
    for what, identity, says in () if content is None else items_of(content):
        tally.add_directory(what, identity, says)
    header = state.header
    tally.add_header(epoch=header.epoch, term=header.term, seq=header.seq, log_time_ms=header.log_time_ms)
    return tally, _trimming_digest(state)


def _trimming_digest(state: LogicalState) -> Digest:
    total = EMPTY
    for partition, rows in state.trimming():
        if not partition.is_dead and len(rows):
            lane_low, lane_high = (np.full(len(rows), lane, np.int64) for lane in key_lanes(partition.key))
            low, high = hash_batches(lane_low, lane_high, rows)
            total = total.plus(Digest(int(low.sum()), int(high.sum())))
    return total
