"""Classic partitions that become diskless: their state, what the records of a migration change, and which records are unlawful.

A partition is *pending* (created, B0 is not set), *initialised* (B0 is set by `DisklessLogInitialized`) or *born* diskless. Its B0 is the
cell FIRST_OFFSET. The log before B0 is Kafka's; of it only the start is known here, as far as a leader reported it.

The leader asks `fault_of` before it logs a record, and every replica before it applies one: so one rule says what a migration may do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias, assert_never

from coordinator.core.commands import LogFacts, LogOrigin
from coordinator.core.tables.cells import REMEMBERED_BATCHES
from coordinator.core.tables.tables import PartitionTable, ProducerTable, RememberedBatch
from coordinator.kafka.batches import SEQUENCE_MASK
from coordinator.kafka.errors import ErrorCode
from records.model import DisklessLogInitialized, DisklessLogRepaired, DisklessLogReset, PrefixStartReported, SeededProducerBatch

UNSET = -1
"""B0, the start of the prefix and the leader epoch of a partition that has none."""
RELEASED = -2
"""B0 of a partition that was born diskless and has gone on in another coordinator (`stretches`)."""
OFFSETS_MAX = 1 << 62
"""A partition's offsets stay below: so those of a file, and their sums with its records, have 63 bits whatever brokers claim."""
PRODUCER_EPOCH_MAX = (1 << 15) - 1

MigrationRecord: TypeAlias = DisklessLogInitialized | DisklessLogReset | DisklessLogRepaired | PrefixStartReported
MIGRATION_RECORDS = (DisklessLogInitialized, DisklessLogReset, DisklessLogRepaired, PrefixStartReported)


class MigrationFault(NamedTuple):
    """Why a record of a migration may not be."""

    error: ErrorCode
    message: str


def facts_of(table: PartitionTable, row: int) -> LogFacts:
    """Return the state of the partition of a row."""
    first_offset = table.first_offset.cells[row]
    return LogFacts(
        0 if first_offset == RELEASED else first_offset,
        table.prefix_start.cells[row],
        table.log_start.cells[row],
        table.high_watermark.cells[row],
        table.leader_epoch.cells[row],
    )


def fault_of(facts: LogFacts, record: MigrationRecord) -> MigrationFault | None:
    """Return why a record may not be, None if it may: first the epoch, then its own numbers, then those of the partition."""
    epoch = record.leader_epoch
    if epoch < facts.leader_epoch:
        text = f"leader epoch {epoch} is fenced: {facts.leader_epoch} is recorded; fetch the metadata of the classic partition anew"
        return MigrationFault(ErrorCode.FENCED_LEADER_EPOCH, text)
    if epoch < 0:
        return _invalid(f"leader epoch {epoch} is negative")
    if facts.origin is LogOrigin.BORN:
        return _invalid("the partition was born diskless: there is nothing to migrate")
    match record:
        case DisklessLogInitialized():
            return _fault_of_init(facts, record)
        case DisklessLogReset():
            return _fault_of_reset(facts, record)
        case DisklessLogRepaired():
            return _fault_of_repair(facts, record)
        case PrefixStartReported():
            return _fault_of_report(facts, record)
        case _:
            assert_never(record)


def _invalid(message: str) -> MigrationFault:
    return MigrationFault(ErrorCode.INVALID_REQUEST, message)


def _fault_of_init(facts: LogFacts, record: DisklessLogInitialized) -> MigrationFault | None:
    start, prefix = record.base_offset, record.prefix_start_offset
    if not 0 <= prefix <= start < OFFSETS_MAX:
        return _invalid(f"prefix start {prefix} and start offset {start} do not fit: 0 <= prefix start <= start offset < {OFFSETS_MAX}")
    if facts.origin is LogOrigin.INITIALISED:
        if start == facts.start_offset:
            return None
        text = (
            f"the log begins at offset {facts.start_offset} already, not at {start}; `diskless migration reset` unsets it while it is empty"
        )
        return _invalid(text)
    return fault_of_seeds(record.producers, start)


def fault_of_seeds(seeds: Sequence[SeededProducerBatch], start: int) -> MigrationFault | None:
    """Batches of a producer are adjacent, in the order of their offsets, below B0."""
    done: set[int] = set()
    before: SeededProducerBatch | None = None
    held = 0
    for seed in seeds:
        who = f"producer {seed.producer_id}"
        if not 0 <= seed.producer_epoch <= PRODUCER_EPOCH_MAX or seed.producer_id < 0:
            return _invalid(f"{who} of epoch {seed.producer_epoch}: ids are 0 or more, epochs 0 to {PRODUCER_EPOCH_MAX}")
        if not (0 <= seed.base_sequence <= SEQUENCE_MASK and 0 <= seed.last_sequence <= SEQUENCE_MASK):
            return _invalid(f"{who}: sequences {seed.base_sequence} to {seed.last_sequence} are outside 0 to {SEQUENCE_MASK}")
        if not 0 <= seed.base_offset < start:
            return _invalid(f"{who}: a batch at offset {seed.base_offset} is not below the start offset {start}")
        if seed.timestamp_ms < -1:
            return _invalid(f"{who}: a batch with timestamp {seed.timestamp_ms}; -1 is the least")
        if before is None or before.producer_id != seed.producer_id:
            if seed.producer_id in done:
                return _invalid(f"{who} is in the list twice")
            done.add(seed.producer_id)
            held = 1
        else:
            held += 1
            if held > REMEMBERED_BATCHES:
                return _invalid(f"{who} has more than {REMEMBERED_BATCHES} batches; name its last ones")
            if seed.producer_epoch != before.producer_epoch or seed.base_offset <= before.base_offset:
                return _invalid(f"{who}: its batches must be of one epoch and in the order of their offsets")
        before = seed
    return None


def _fault_of_reset(facts: LogFacts, record: DisklessLogReset) -> MigrationFault | None:
    if facts.origin is LogOrigin.PENDING:
        return None
    if record.leader_epoch == facts.leader_epoch:
        text = f"leader epoch {record.leader_epoch} set the start offset; only a higher one may unset it"
        return MigrationFault(ErrorCode.FENCED_LEADER_EPOCH, text)
    if facts.has_records:
        return _invalid(
            f"records were committed from offset {facts.start_offset} to {facts.high_watermark - 1} already: without the start offset they"
            " would be lost; `diskless migration repair` lowers it and keeps them"
        )
    return None


def _fault_of_repair(facts: LogFacts, record: DisklessLogRepaired) -> MigrationFault | None:
    if facts.origin is LogOrigin.PENDING:
        return _invalid("the log has no start offset that could be lowered; `diskless migration init` sets it")
    start, least = record.base_offset, max(0, facts.prefix_start)
    if not least <= start <= facts.start_offset:
        return _invalid(f"start offset {start} is outside {least}, the prefix start, to {facts.start_offset}, the start offset in force")
    return None


def _fault_of_report(facts: LogFacts, record: PrefixStartReported) -> MigrationFault | None:
    if facts.origin is LogOrigin.PENDING:
        text = "its log is not initialised yet; the prefix start is set together with the start offset"
        return MigrationFault(ErrorCode.NOT_LEADER_OR_FOLLOWER, text)
    if not 0 <= record.prefix_start_offset <= facts.start_offset:
        return _invalid(f"prefix start {record.prefix_start_offset} is outside 0 to {facts.start_offset}, the start offset")
    return None


def moved(facts: LogFacts, record: MigrationRecord) -> LogFacts:
    """Return the state of a partition after a lawful record."""
    facts = facts._replace(leader_epoch=record.leader_epoch)
    match record:
        case DisklessLogInitialized() if facts.origin is LogOrigin.PENDING:
            start = record.base_offset
            return facts._replace(start_offset=start, prefix_start=record.prefix_start_offset, suffix_start=start, high_watermark=start)
        case DisklessLogReset() if facts.origin is LogOrigin.INITIALISED:
            return facts._replace(start_offset=UNSET, prefix_start=UNSET, suffix_start=0, high_watermark=0)
        case DisklessLogRepaired() if facts.has_records:
            return facts._replace(start_offset=record.base_offset)
        case DisklessLogRepaired(base_offset=start):
            return facts._replace(start_offset=start, suffix_start=start, high_watermark=start)
        case PrefixStartReported():
            return facts._replace(prefix_start=max(facts.prefix_start, record.prefix_start_offset))
        case _:
            # Any other lawful step repeats the state that is there: only the epoch is new.
            return facts


def apply_migration(partitions: PartitionTable, producers: ProducerTable, row: int, record: MigrationRecord, log_time_ms: int) -> None:
    """Take a record that may be into the tables. The caller has dropped the producers of a partition that is reset."""
    facts = facts_of(partitions, row)
    if isinstance(record, DisklessLogInitialized) and facts.origin is LogOrigin.PENDING:
        seed_producers(producers, row, record.producers, max(record.time_ms, log_time_ms))
    now = moved(facts, record)
    partitions.first_offset.cells[row] = now.start_offset
    partitions.prefix_start.cells[row] = now.prefix_start
    partitions.log_start.cells[row] = now.suffix_start
    partitions.high_watermark.cells[row] = now.high_watermark
    partitions.leader_epoch.cells[row] = now.leader_epoch
    partitions.rows.touch(row)


def seed_producers(producers: ProducerTable, row: int, seeds: list[SeededProducerBatch], time_ms: int) -> None:
    """Let a partition know the last batches of the producers of its classic log."""
    by_producer: dict[int, list[SeededProducerBatch]] = {}
    for seed in seeds:
        by_producer.setdefault(seed.producer_id, []).append(seed)
    producers.reserve(len(by_producer))
    for producer_id, batches in by_producer.items():
        ring = [RememberedBatch(one.base_sequence, one.last_sequence, one.base_offset, one.timestamp_ms) for one in batches]
        producers.seed(row, producer_id, batches[0].producer_epoch, time_ms, ring)
