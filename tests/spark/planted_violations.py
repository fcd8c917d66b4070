"""Violations that are planted into a log, each with what has to be found; and a log that looks odd and is right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from records import model
from records.codec import encode_entry, encode_key
from records.entry_key import EntryKey
from records.history import schema_of_level
from records.levels import LEVEL_LATEST
from tests.spark.scan_logs import MASK, TOPIC, LogWriter, moved, refused

Found = list[tuple[object, ...]]
Plant = Callable[[LogWriter], Found]


def offset_gap(log: LogWriter) -> Found:
    log.next[(TOPIC, 0)] = 9
    return [(log.commit((0, 1)), "offset-gap", 4, 9)]


def offset_overlap(log: LogWriter) -> Found:
    log.next[(TOPIC, 0)] = 3
    return [(log.commit((1, 1), (0, 1)), "offset-overlap", 4, 3)]


def offset_regression(log: LogWriter) -> Found:
    log.next[(TOPIC, 0)] = 0
    return [(log.commit((0, 2)), "offset-regression", 4, 0)]


def offset_gap_within_a_file(log: LogWriter) -> Found:
    record = log.file([(0, 1), (1, 1), (0, 1)])
    return [(log.add(moved(record, [0, 0, 2])), "offset-gap", 6, 8)]


def sequence_gap(log: LogWriter) -> Found:
    log.produce(0)
    return [(log.produce(4), "sequence-gap", 2, 4)]


def sequence_duplicate(log: LogWriter) -> Found:
    log.produce(0)
    log.produce(2)
    return [(log.produce(2), "sequence-duplicate", 4, 2)]


def sequence_gap_after_the_last_number(log: LogWriter) -> Found:
    log.produce(MASK - 1)
    return [(log.produce(1), "sequence-gap", 0, 1)]


def first_sequence_of_a_partition(log: LogWriter) -> Found:
    topic_id = b"freshest" * 2
    log.create(topic_id, 2)
    return [(log.commit((1, 1), (1, 1), topic_id=topic_id, producer=(5, 0, 7)), "sequence-gap", 0, 7)]


def new_epoch_with_another_sequence(log: LogWriter) -> Found:
    log.produce(0)
    return [(log.produce(2, epoch=1), "sequence-gap", 0, 2)]


def producer_epoch_regression(log: LogWriter) -> Found:
    log.produce(0, epoch=3)
    return [(log.produce(2, epoch=2), "producer-epoch-regression", 3, 2)]


def started(base: int, prefix: int = 0, epoch: int = 1, seeds: Sequence[model.SeededProducerBatch] = ()) -> model.DisklessLogInitialized:
    return model.DisklessLogInitialized(
        topic_id=TOPIC, partition=3, base_offset=base, prefix_start_offset=prefix, leader_epoch=epoch, producers=list(seeds)
    )


def begin(log: LogWriter, base: int, prefix: int = 0, seeds: Sequence[model.SeededProducerBatch] = ()) -> None:
    """Partition 3 is a classic one whose diskless log has begun."""
    log.await_partition(3)
    log.add(started(base, prefix, seeds=seeds))
    log.next[(TOPIC, 3)] = log.starts[(TOPIC, 3)] = base


SEED = model.SeededProducerBatch(producer_id=5, producer_epoch=2, base_sequence=0, last_sequence=9, base_offset=40, timestamp_ms=-1)


def seeded_producer(log: LogWriter) -> Found:
    begin(log, 50, 7, [SEED])
    log.produce(10, partition=3, epoch=2)
    return [(log.produce(13, partition=3, epoch=2), "sequence-gap", 12, 13)]


def byte_overlap(log: LogWriter) -> Found:
    return [(log.commit((0, 2), gaps=[0, -3]), "byte-overlap", 10, 7)]


def batches_beyond_file(log: LogWriter) -> Found:
    return [(log.commit((0, 2), file_size=19), "batches-beyond-file", 19, 20)]


def absurd_file_size(log: LogWriter) -> Found:
    return [(log.commit((0, 2), file_size=2**62), "batches-beyond-file", 2**62, 20)]


def log_start_above_high_watermark(log: LogWriter) -> Found:
    offset = log.add(model.RecordsDeleted(topic_id=TOPIC, partition=0, new_log_start_offset=5))
    return [(offset, "log-start-above-high-watermark", 4, 5)]


def log_start_of_a_run_above_high_watermark(log: LogWriter) -> Found:
    return [(log.commit((0, 1), log_start=5), "log-start-above-high-watermark", 4, 5)]


def log_start_backwards(log: LogWriter) -> Found:
    log.add(model.RecordsDeleted(topic_id=TOPIC, partition=0, new_log_start_offset=3))
    return [(log.add(model.RecordsDeleted(topic_id=TOPIC, partition=0, new_log_start_offset=2)), "log-start-backwards", 3, 2)]


def log_start_of_a_run_backwards(log: LogWriter) -> Found:
    log.add(model.RecordsDeleted(topic_id=TOPIC, partition=0, new_log_start_offset=3))
    return [(log.commit((0, 1), log_start=2), "log-start-backwards", 3, 2)]


def log_start_of_a_run_ahead(log: LogWriter) -> Found:
    """Replicas do not take a log start from a file: the batches before it live on."""
    offset = log.commit((0, 1), log_start=2)
    log.commit((0, 1))
    return [(offset, "log-start-unfounded", 0, 2)]


# ---- moves


def released(move_id: int, partition: int = 0, topic_id: bytes = TOPIC) -> model.PartitionReleased:
    return model.PartitionReleased(topic_id=topic_id, partition=partition, move_id=move_id, to_coordinator=1, time_ms=move_id)


def adopted(log: LogWriter, move_id: int, start: int, base: int, partition: int = 0, topic_id: bytes = TOPIC) -> model.PartitionAdopted:
    """An adoption; the log's next files of the partition continue it."""
    log.starts[(topic_id, partition)], log.next[(topic_id, partition)] = start, base
    earlier = [model.EarlierStretch(coordinator_id=1, end_offset=base, move_id=move_id, time_ms=move_id)]
    return model.PartitionAdopted(
        topic_id=topic_id, partition=partition, name="orders", move_id=move_id, start_offset=start, base_offset=base, earlier=earlier
    )


def adopted_producers(*seeds: model.SeededProducerBatch, partition: int = 0, topic_id: bytes = TOPIC) -> model.ProducersAdopted:
    return model.ProducersAdopted(topic_id=topic_id, partition=partition, producers=list(seeds), time_ms=1)


def batch_in_a_released_partition(log: LogWriter) -> Found:
    """It goes on elsewhere: only its records are deleted here."""
    log.add(released(1))
    offset = log.commit((1, 1), (0, 1))
    log.next[(TOPIC, 1)] -= 2
    log.add(model.RecordsDeleted(topic_id=TOPIC, partition=0, new_log_start_offset=4))
    log.commit((1, 1))
    return [(offset, "partition-released", None, None)]


def release_of_a_released_partition(log: LogWriter) -> Found:
    log.add(released(1))
    return [(log.add(released(2)), "move-unlawful", None, None)]


def release_of_a_partition_that_is_not_here(log: LogWriter) -> Found:
    return [(log.add(released(1, partition=9)), "unknown-partition", None, None)]


def release_of_a_classic_partition(log: LogWriter) -> Found:
    begin(log, 50)
    return [(log.add(released(1, partition=3)), "move-unlawful", None, None)]


def release_in_a_move_that_is_over(log: LogWriter) -> Found:
    log.add(adopted(log, 7, 0, 9, partition=3))
    offset = log.add(released(7, partition=3))
    log.commit((3, 1))
    return [(offset, "move-unlawful", 8, 7)]


def adoption_of_a_partition_that_is_here(log: LogWriter) -> Found:
    known = log.next[(TOPIC, 0)]
    offset = log.add(adopted(log, 1, 0, 9))
    log.next[(TOPIC, 0)] = known
    log.commit((0, 1))
    return [(offset, "move-unlawful", None, None)]


def adoption_beside_records_of_an_earlier_stretch(log: LogWriter) -> Found:
    log.add(released(1))
    log.add(model.RecordsDeleted(topic_id=TOPIC, partition=0, new_log_start_offset=2))
    return [(log.add(adopted(log, 2, 2, 9)), "move-unlawful", 4, 2)]


def adoption_with_numbers_that_do_not_fit(log: LogWriter) -> Found:
    return [(log.add(adopted(log, 2, 10, 9, partition=3)), "move-unlawful", None, None)]


def adoption_and_release_in_one_entry(log: LogWriter) -> Found:
    return [(log.add(adopted(log, 2, 1, 9, partition=3), released(3, partition=3)), "move-unlawful", None, None)]


def producers_without_an_adoption(log: LogWriter) -> Found:
    log.add(adopted(log, 2, 1, 50, partition=3))
    return [(log.add(adopted_producers(SEED, partition=3)), "move-unlawful", None, None)]


def producers_beyond_the_beginning_of_a_stretch(log: LogWriter) -> Found:
    return [(log.add(adopted(log, 2, 1, 40, partition=3), adopted_producers(SEED, partition=3)), "move-unlawful", None, None)]


def producer_that_is_adopted_twice(log: LogWriter) -> Found:
    twice = [adopted_producers(SEED, partition=3)] * 2
    return [(log.add(adopted(log, 2, 1, 50, partition=3), *twice), "move-unlawful", None, None)]


def sequence_of_an_adopted_producer(log: LogWriter) -> Found:
    log.add(adopted(log, 2, 1, 50, partition=3), adopted_producers(SEED, partition=3))
    log.produce(10, partition=3, epoch=2)
    return [(log.produce(13, partition=3, epoch=2), "sequence-gap", 12, 13)]


def gap_behind_the_beginning_of_a_stretch(log: LogWriter) -> Found:
    log.add(adopted(log, 2, 1, 50, partition=3))
    log.next[(TOPIC, 3)] = 51
    return [(log.commit((3, 1)), "offset-gap", 50, 51)]


def deletion_past_the_end_of_a_released_stretch(log: LogWriter) -> Found:
    log.add(released(1))
    return [(log.add(model.RecordsDeleted(topic_id=TOPIC, partition=0, new_log_start_offset=5)), "log-start-above-high-watermark", 4, 5)]


def stop(offset: int) -> tuple[object, ...]:
    """Replicas stop where a record stands that they cannot apply; the monitor goes on."""
    return offset, "replica-stops", None, None


def diskless_base_moved(log: LogWriter) -> Found:
    begin(log, 50)
    log.add(started(50, epoch=2))
    log.commit((3, 1))
    return [(log.add(started(60, epoch=2)), "diskless-base-moved", 50, 60)]


def diskless_base_lowered_below_its_prefix(log: LogWriter) -> Found:
    begin(log, 50, 7)
    log.commit((3, 1))
    log.add(model.PrefixStartReported(topic_id=TOPIC, partition=3, prefix_start_offset=30, leader_epoch=1))
    log.add(model.DisklessLogRepaired(topic_id=TOPIC, partition=3, base_offset=40, leader_epoch=1))
    log.commit((3, 1))
    lower = model.DisklessLogRepaired(topic_id=TOPIC, partition=3, base_offset=29, leader_epoch=1)
    return [(log.add(lower), "diskless-base-moved", 40, 29)]


def diskless_base_reset_with_batches(log: LogWriter) -> Found:
    begin(log, 50)
    log.commit((3, 1))
    return [(log.add(model.DisklessLogReset(topic_id=TOPIC, partition=3, leader_epoch=2)), "diskless-base-moved", 50, 52)]


def step_of_a_replaced_leader(log: LogWriter) -> Found:
    log.await_partition(3)
    log.add(model.DisklessLogReset(topic_id=TOPIC, partition=3, leader_epoch=4))
    return [(log.add(started(50, epoch=3)), "migration-fenced", 4, 3)]


def reset_by_the_leader_that_began(log: LogWriter) -> Found:
    begin(log, 50)
    return [(log.add(model.DisklessLogReset(topic_id=TOPIC, partition=3, leader_epoch=1)), "migration-fenced", 1, 1)]


def migration_of_a_partition_that_was_born_diskless(log: LogWriter) -> Found:
    return [(log.add(replace(started(4), partition=0)), "migration-unlawful", None, None)]


def batch_before_the_diskless_log_begins(log: LogWriter) -> Found:
    log.await_partition(3)
    return [(log.commit((3, 1)), "migration-unlawful", None, None)]


def seeds_beyond_the_start(log: LogWriter) -> Found:
    log.await_partition(3)
    return [(log.add(started(40, seeds=[SEED])), "migration-unlawful", None, None)]


def report_before_the_diskless_log_begins(log: LogWriter) -> Found:
    log.await_partition(3)
    report = model.PrefixStartReported(topic_id=TOPIC, partition=3, prefix_start_offset=0, leader_epoch=1)
    return [(log.add(report), "migration-unlawful", None, None)]


def transaction_in_a_transaction(log: LogWriter) -> Found:
    began = log.add(model.TransactionBegan(name="t"))
    second = log.add(model.TransactionBegan(name="u"))
    end = log.add(model.TransactionEnded(num_chunks=0))  # both are over
    return [(second, "transaction-unclosed", began, second), (end, "transaction-unopened", None, None)]


def transaction_of_other_length(log: LogWriter) -> Found:
    log.add(model.TransactionBegan(name="t"))
    log.add(model.NoOp())
    return [(log.add(model.TransactionEnded(num_chunks=2)), "transaction-chunks", 2, 1)]


def transaction_of_other_length_than_its_beginning_says(log: LogWriter) -> Found:
    log.add(model.TransactionBegan(name="t", num_chunks=2))
    log.add(model.NoOp())
    return [(log.add(model.TransactionEnded(num_chunks=1)), "transaction-chunks", 2, 1)]


def transaction_that_ends_beside_others(log: LogWriter) -> Found:
    log.add(model.TransactionBegan(name="t"))
    beside = log.add(model.TransactionEnded(num_chunks=0), model.NoOp())
    end = log.add(model.TransactionEnded(num_chunks=1))
    return [(beside, "misplaced-transaction", None, None), (end, "transaction-unopened", None, None)]


def transaction_that_ends_after_it_was_aborted(log: LogWriter) -> Found:
    log.add(model.TransactionBegan(name="t", num_chunks=1))
    log.add(model.RecordsDeleted(topic_id=TOPIC, partition=0, new_log_start_offset=99))
    log.add(model.TransactionAborted(reason="no"))
    return [(log.add(model.TransactionEnded(num_chunks=1)), "transaction-unopened", None, None)]


def transaction_that_never_began(log: LogWriter) -> Found:
    return [(log.add(model.TransactionEnded(num_chunks=1)), "transaction-unopened", None, None)]


def deletion_beyond_the_end_inside_a_transaction(log: LogWriter) -> Found:
    log.add(model.TransactionBegan(name="t"))
    log.add(model.RecordsDeleted(topic_id=TOPIC, partition=1, new_log_start_offset=2))
    beyond = log.add(model.RecordsDeleted(topic_id=TOPIC, partition=0, new_log_start_offset=5))
    log.add(model.TransactionEnded(num_chunks=2))
    return [(beyond, "log-start-above-high-watermark", 4, 5)]


def file_inside_a_transaction(log: LogWriter) -> Found:
    log.add(model.TransactionBegan(name="t"))
    file = log.commit((0, 1))
    log.next[(TOPIC, 0)] -= 2
    log.add(model.TransactionEnded(num_chunks=1))
    log.commit((0, 1))
    return [(file, "misplaced-file", None, None)]


def two_files_in_one_entry(log: LogWriter) -> Found:
    known = dict(log.next)
    offset = log.add(log.file([(0, 1)]), log.file([(1, 1)]))
    log.next = known
    return [(offset, "misplaced-file", 1, 2)]


def file_beside_others(log: LogWriter) -> Found:
    offset = log.add(log.file([(0, 1)]), model.NoOp())
    log.next[(TOPIC, 0)] -= 2
    return [(offset, "misplaced-file", None, None)]


def batch_beyond_what_can_be_asked_for(log: LogWriter) -> Found:
    offset = log.commit((0, 2), gaps=[0, 2**31], file_size=2**40)
    log.next[(TOPIC, 0)] -= 4
    return [(offset, "batch-beyond-limit", 2**31 - 1, 2**31 + 10)]


def entry_that_cannot_be_decoded(log: LogWriter) -> Found:
    log.seq += 1
    key = encode_key(EntryKey(log.epoch, log.term, log.seq))
    return [(log.raw(key, encode_entry([model.NoOp()])[:-1]), "undecodable-entry", None, None)]


def entry_of_an_unknown_schema(log: LogWriter) -> Found:
    """Replicas of this version stop at the first; the monitor knows no chain behind any of them, and goes on."""
    first = log.end
    for _ in range(2):
        log.seq += 1
        log.raw(encode_key(EntryKey(log.epoch, log.term, log.seq)), b"\xc3\x01 of a version to come")
        log.next[(TOPIC, 0)] += 100
        log.commit((0, 1))
    return [stop(first)]


def level_of_a_version_to_come(log: LogWriter) -> Found:
    return [stop(log.add(model.FeatureLevelSet(level=LEVEL_LATEST + 1)))]


def level_not_in_force(log: LogWriter) -> Found:
    fresh = LogWriter()
    log.entries, log.epoch, log.term, log.seq = fresh.entries[:1], fresh.epoch, fresh.term, 0
    log.level, log.next = 1, {}
    log.create(TOPIC, 3)
    log.level = LEVEL_LATEST
    log.add(model.NoOp())
    log.add(model.NoOp())
    late = next(entry.offset for entry in log.entries if (entry.value or b"").startswith(schema_of_level(LEVEL_LATEST).header))
    return [(late, "level-not-in-force", 1, LEVEL_LATEST)]


def append_time_backwards(log: LogWriter) -> Found:
    before = log.now_ms
    offset = log.commit((0, 1), append_time_ms=before - 7)
    return [(offset, "append-time-backwards", before, before - 7)]


def owners_without_this_coordinator(log: LogWriter) -> Found:
    return [(log.commit((0, 1), owner_ids=[1, 2]), "owner-missing", 0, None)]


def hole_in_created_partitions(log: LogWriter) -> Found:
    created = replace(log.creation(TOPIC, 2), first_partition=5)
    return [(log.add(created), "partition-hole", 3, 5)]


def partition_that_is_placed_elsewhere(log: LogWriter) -> Found:
    other = bytes([8] * 16)
    ranges = [
        model.PlacedRange(first_partition=0, num_partitions=2, coordinator_id=0),
        model.PlacedRange(first_partition=2, num_partitions=1, coordinator_id=1),
    ]
    log.add(model.TopicPlaced(topic_id=other, name="t", ranges=ranges, confirmed=False))
    return [(log.create(other, 3), "partition-not-placed", None, None)]


def hole_in_a_placement(log: LogWriter) -> Found:
    ranges = [model.PlacedRange(first_partition=first, num_partitions=2, coordinator_id=0) for first in (0, 3)]
    return [(log.add(model.TopicPlaced(topic_id=bytes([8] * 16), name="t", ranges=ranges, confirmed=False)), "placement-broken", 2, 3)]


def absurdly_many_partitions(log: LogWriter) -> Found:
    return [(log.create(TOPIC, 2**31 - 1), "absurd-partition-count", 10_000_000, 2**31 - 1)]


def claim_that_skips_epochs(log: LogWriter) -> Found:
    claim = model.LeadershipClaimed(epoch=9, term=5, node_id=1, rack="", endpoints=[])
    return [(log.raw(encode_key(EntryKey(9, 5, 0)), encode_entry([claim])), "epoch-jump", 2, 9)]


def snapshot_of_a_later_epoch(log: LogWriter) -> Found:
    snapshot = model.SnapshotCommitted(mark_offset=1, end_offset=2, epoch=3, size_bytes=1, sha256=bytes(32), digest=bytes(16), location="s")
    return [(log.add(snapshot), "epoch-regression", 1, 3)]


def snapshot_of_entries_to_come(log: LogWriter) -> Found:
    end = log.end + 1
    snapshot = model.SnapshotCommitted(
        mark_offset=1, end_offset=end, epoch=1, size_bytes=1, sha256=bytes(32), digest=bytes(16), location="s"
    )
    return [(log.add(snapshot), "snapshot-beyond-log", end - 1, end)]


def claim_inside_a_term(log: LogWriter) -> Found:
    return [(log.add(model.LeadershipClaimed(epoch=2, term=5, node_id=1, rack="", endpoints=[])), "misplaced-claim", None, None)]


def entry_again(log: LogWriter) -> Found:
    value = log.entries[-1].value
    return [(log.raw(encode_key(EntryKey(log.epoch, log.term, log.seq)), value), "void-carries-live-term", log.seq + 1, log.seq)]


def entry_after_a_hole(log: LogWriter) -> Found:
    return [(log.raw(encode_key(EntryKey(1, log.term, log.seq + 5)), b""), "void-carries-live-term", log.seq + 1, log.seq + 5)]


def entry_of_another_epoch_with_the_live_term(log: LogWriter) -> Found:
    return [(log.raw(encode_key(EntryKey(0, log.term, log.seq + 1)), b""), "void-carries-live-term", log.epoch, 0)]


def file_committed_twice(log: LogWriter) -> Found:
    first = log.end - 1
    return [(log.commit((0, 1), object_key=log.file([]).object_key[:4] + "000001"), "file-committed-twice", first, None)]


def file_committed_after_fence(log: LogWriter) -> Found:
    fence = log.add(model.FilesFenced(object_keys=["wal/late"], created_ms=[1]))
    return [(log.commit((0, 1), object_key="wal/late"), "file-committed-after-fence", fence, None)]


def file_committed_after_removal(log: LogWriter) -> Found:
    first = log.commit((2, 1))
    log.add(model.RecordsDeleted(topic_id=TOPIC, partition=2, new_log_start_offset=2))
    log.starts[(TOPIC, 2)] = 2
    log.add(model.FilesRemoved(object_keys=["wal/000002"]))
    return [(log.commit((2, 1), object_key="wal/000002"), "file-committed-after-fence", first, None)]


def live_file_removed(log: LogWriter) -> Found:
    return [(log.add(model.FilesRemoved(object_keys=["wal/000001"])), "live-file-removed", 0, 4)]


def live_file_handed_over(log: LogWriter) -> Found:
    return [(log.add(model.FilesHandedOver(object_keys=["wal/000001"], next_owner_ids=[1])), "live-file-handed-over", 0, 4)]


def live_file_fenced(log: LogWriter) -> Found:
    return [(log.add(model.FilesFenced(object_keys=["wal/000001"], created_ms=[1])), "live-file-fenced", 0, 4)]


def entries_lost(log: LogWriter) -> Found:
    expected = log.end
    log.first_offset += 7
    log.next[(TOPIC, 0)] = 400
    log.next[(TOPIC, 1)] = 500
    log.seq += 7
    return [(log.commit((0, 1), (1, 1)), "log-lost", expected, expected + 7)]


def unknown_partition(log: LogWriter) -> Found:
    """Nothing of a void file counts, in no partition of it."""
    found = []
    for _ in range(2):
        offset = log.commit((1, 1), (9, 1))
        log.next[(TOPIC, 1)] -= 2
        found.append((offset, "unknown-partition", None, None))
    log.commit((1, 1))
    return found


def deletion_in_an_unknown_partition(log: LogWriter) -> Found:
    return [(log.add(model.RecordsDeleted(topic_id=TOPIC, partition=9, new_log_start_offset=7)), "unknown-partition", None, None)]


def deleted_topic(log: LogWriter) -> Found:
    deleted = log.add(model.TopicDeleted(topic_id=TOPIC, order_offset=1))
    log.next.clear()
    offset = log.commit((0, 1))
    log.next.clear()
    log.create(TOPIC, 3)
    log.commit((0, 1))
    return [(offset, "deleted-topic", deleted, None)]


PLANTS: list[Plant] = [
    offset_gap, offset_overlap, offset_regression, offset_gap_within_a_file, sequence_gap, sequence_duplicate,
    sequence_gap_after_the_last_number, first_sequence_of_a_partition, new_epoch_with_another_sequence, producer_epoch_regression,
    seeded_producer, byte_overlap,
    batches_beyond_file, absurd_file_size, log_start_above_high_watermark, log_start_of_a_run_above_high_watermark,
    log_start_backwards, log_start_of_a_run_backwards, log_start_of_a_run_ahead, batch_in_a_released_partition,
    release_of_a_released_partition, release_of_a_partition_that_is_not_here, release_of_a_classic_partition,
    release_in_a_move_that_is_over, adoption_of_a_partition_that_is_here, adoption_beside_records_of_an_earlier_stretch,
    adoption_with_numbers_that_do_not_fit, adoption_and_release_in_one_entry, producers_without_an_adoption,
    producers_beyond_the_beginning_of_a_stretch, producer_that_is_adopted_twice, sequence_of_an_adopted_producer,
    gap_behind_the_beginning_of_a_stretch, deletion_past_the_end_of_a_released_stretch,
    diskless_base_moved, diskless_base_lowered_below_its_prefix,
    diskless_base_reset_with_batches, step_of_a_replaced_leader, reset_by_the_leader_that_began,
    migration_of_a_partition_that_was_born_diskless, batch_before_the_diskless_log_begins, seeds_beyond_the_start,
    report_before_the_diskless_log_begins, transaction_in_a_transaction, transaction_of_other_length,
    transaction_of_other_length_than_its_beginning_says, transaction_that_ends_beside_others,
    transaction_that_ends_after_it_was_aborted, transaction_that_never_began, deletion_beyond_the_end_inside_a_transaction,
    file_inside_a_transaction, two_files_in_one_entry, file_beside_others, batch_beyond_what_can_be_asked_for,
    entry_that_cannot_be_decoded, entry_of_an_unknown_schema, level_of_a_version_to_come,
    level_not_in_force, append_time_backwards, owners_without_this_coordinator, hole_in_created_partitions,
    partition_that_is_placed_elsewhere, hole_in_a_placement, absurdly_many_partitions,
    claim_that_skips_epochs, snapshot_of_a_later_epoch, snapshot_of_entries_to_come, claim_inside_a_term, entry_again,
    entry_after_a_hole, entry_of_another_epoch_with_the_live_term, file_committed_twice, file_committed_after_fence,
    file_committed_after_removal, live_file_removed, live_file_handed_over, live_file_fenced, entries_lost, unknown_partition,
    deletion_in_an_unknown_partition, deleted_topic,
]  # fmt: skip


def migrated(log: LogWriter) -> None:
    """A topic of one classic partition that becomes diskless, at the second attempt."""
    topic_id = b"migrated" * 2
    log.add(replace(log.creation(topic_id, 1, "classic"), classic_pending=True))
    log.add(replace(started(100, 9, seeds=[SEED]), topic_id=topic_id, partition=0))
    for _ in range(2):
        log.add(model.DisklessLogReset(topic_id=topic_id, partition=0, leader_epoch=2))
    log.add(replace(started(50, epoch=3, seeds=[SEED]), topic_id=topic_id, partition=0))
    log.add(replace(started(50, epoch=4), topic_id=topic_id, partition=0))  # the same again, by a later leader
    log.next[(topic_id, 0)] = log.starts[(topic_id, 0)] = 50
    log.commit((0, 1), topic_id=topic_id, producer=(6, 0, 77))  # whose state was gone before the migration
    log.commit((0, 1), topic_id=topic_id, producer=(5, 2, 10))
    log.add(model.PrefixStartReported(topic_id=topic_id, partition=0, prefix_start_offset=20, leader_epoch=4))
    log.add(model.DisklessLogRepaired(topic_id=topic_id, partition=0, base_offset=45, leader_epoch=4))
    log.commit((0, 2), topic_id=topic_id)


def travelled(log: LogWriter) -> None:
    """A partition that comes with records before it, goes when its own are deleted, comes again, and goes with its topic."""
    topic_id = b"traveler" * 2
    log.add(adopted(log, 1, 3, 50, topic_id=topic_id), adopted_producers(SEED, topic_id=topic_id))
    log.commit((0, 2), topic_id=topic_id, producer=(5, 2, 10))
    for start in (20, 52):
        log.add(model.RecordsDeleted(topic_id=topic_id, partition=0, new_log_start_offset=start))
        log.starts[(topic_id, 0)] = start
        log.commit((0, 1), topic_id=topic_id)
    log.add(released(2, topic_id=topic_id))
    log.add(model.RecordsDeleted(topic_id=topic_id, partition=0, new_log_start_offset=55))
    log.add(model.RecordsDeleted(topic_id=topic_id, partition=0, new_log_start_offset=58))
    log.add(model.TransactionBegan(name="comes again"))
    log.add(adopted(log, 3, 70, 90, topic_id=topic_id))
    log.add(adopted_producers(replace(SEED, producer_id=8), topic_id=topic_id))
    log.add(model.TransactionEnded(num_chunks=2))
    log.commit((0, 1), topic_id=topic_id, producer=(5, 0, 3))  # not known any more
    log.commit((0, 1), topic_id=topic_id, producer=(8, 2, 10))
    log.add(model.TopicDeleted(topic_id=topic_id, order_offset=1))


def healthy(log: LogWriter) -> None:
    """What looks odd and is right."""
    travelled(log)
    log.produce(0, epoch=4)
    log.now_ms += 10
    log.add(model.ProducersExpired(before_ms=log.now_ms))
    log.produce(77, epoch=1)  # forgotten, so it may begin anywhere
    migrated(log)
    log.produce(MASK - 3, producer_id=6)
    log.produce(MASK - 1, producer_id=6)
    log.produce(0, producer_id=6)  # sequences wrap
    log.produce(2, producer_id=6)
    log.produce(0, producer_id=6, epoch=1)
    log.produce(9, producer_id=8)  # not known: any sequence
    log.commit((0, 2), gaps=[10, -20])  # the second batch lies before the first
    stale, value = encode_key(EntryKey(log.epoch, log.term, log.seq + 1)), log.entries[-1].value
    log.claim()
    log.raw(stale, value)
    rival = model.LeadershipClaimed(epoch=log.epoch, term=1, node_id=2, rack="", endpoints=[])
    log.raw(encode_key(EntryKey(log.epoch, 1, 0)), encode_entry([rival]))
    log.raw(None, None)
    log.commit((0, 1), (1, 1), (0, 1))
    log.add(model.RecordsDeleted(topic_id=TOPIC, partition=0, new_log_start_offset=3))
    log.starts[(TOPIC, 0)] = 3
    log.commit((0, 1))
    log.commit(batches=refused(1, 2))
    log.add(model.FilesFenced(object_keys=["wal/never"], created_ms=[1]))
    log.add(model.TransactionBegan(name="t"))
    log.add(model.RecordsDeleted(topic_id=TOPIC, partition=1, new_log_start_offset=1))
    log.add(model.TransactionEnded(num_chunks=1))
    log.starts[(TOPIC, 1)] = 1
    log.commit((1, 3))
    log.add(model.TopicDeleted(topic_id=TOPIC, order_offset=1))
    log.next.clear()
    log.starts.clear()
    log.create(TOPIC, 2)
    log.commit((1, 1))
    for note in (False, True):
        log.add(model.TransactionBegan(name="t", num_chunks=2))
        log.add(model.RecordsDeleted(topic_id=TOPIC, partition=1, new_log_start_offset=99))
        if note:
            log.claim()
        log.add(model.TransactionAborted(reason="a claim came, or something else"))
    log.add(model.TransactionBegan(name="t", num_chunks=1))
    log.raw(None, b"stray")
    log.add(model.NoOp())
    log.add(model.TransactionEnded(num_chunks=1))
    log.commit((1, 1))
