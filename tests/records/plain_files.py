"""The codec of `FileCommitted` once more, in plain Python and with rules of its own: what the product's loops have to do.

It shares the schema levels with the product and nothing else: fields, order, ranges and forms are said here again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

from records.committed_files.codec import CommittedBatch, FileCommitted
from records.history import levels, schema_of_level

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

PREFIXES = {level: schema_of_level(level).header + b"\x02\x06" for level in levels()}
"""One record, which is the fourth of the union."""


class NotAFile(Exception):
    """The bytes are no entry of one file, or the file is not lawful."""


def need(holds: bool) -> None:
    if not holds:
        raise NotAFile


def varint(value: int) -> bytes:
    unsigned = value * 2 if value >= 0 else -value * 2 - 1
    need(unsigned < 2**64)
    out = bytearray()
    while unsigned >= 128:
        out.append(unsigned % 128 + 128)
        unsigned //= 128
    return bytes([*out, unsigned])


class Source:
    """Bytes that are read from the front."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def take(self, size: int) -> bytes:
        need(0 <= size <= len(self.data))
        taken, self.data = self.data[:size], self.data[size:]
        return taken

    def number(self, least: int = -LONG_MAX - 1, greatest: int = LONG_MAX) -> int:
        """A number in its shortest form."""
        size = next((size for size, byte in enumerate(self.data[:10], 1) if byte < 128), 0)
        need(size > 0)
        raw = self.take(size)
        unsigned = sum((byte % 128) * 128**place for place, byte in enumerate(raw))
        value = unsigned // 2 if unsigned % 2 == 0 else -(unsigned + 1) // 2
        need(unsigned < 2**64)
        need(varint(value) == raw)
        need(least <= value <= greatest)
        return value


def runs_of(batches: Sequence[CommittedBatch]) -> Iterator[list[CommittedBatch]]:
    """Neighbours of one partition and log start, cut where the offsets of accepted batches do not follow each other."""
    for _, same in groupby(batches, lambda one: (one.topic_id, one.partition, one.log_start)):
        run: list[CommittedBatch] = []
        due = None
        for batch in same:
            if batch.verdict == 0:
                if due not in (None, batch.base_offset):
                    yield run
                    run = []
                due = batch.base_offset + batch.record_count
            run.append(batch)
        yield run


def check(file: FileCommitted) -> None:
    """Raise NotAFile when a file must not be written."""
    need(all(-INT_MAX - 1 <= number <= INT_MAX for number in (file.object_format, file.uploader_broker_id, *file.owner_ids)))
    need(all(-LONG_MAX - 1 <= number <= LONG_MAX for number in (file.file_size, file.created_ms, file.append_time_ms)))
    need(len(file.content_hash) == 16)
    for one in file.batches:
        need(len(one.topic_id) == 16)
        need(0 <= one.partition <= INT_MAX)
        need(0 <= one.verdict <= 6)
        need(1 <= one.record_count <= INT_MAX + 1)
        need(0 <= one.byte_size <= INT_MAX)
        need(0 <= one.byte_offset <= LONG_MAX - one.byte_size)
        need(-LONG_MAX - 1 <= one.timestamp_ms <= LONG_MAX)
        need(-LONG_MAX - 1 <= file.append_time_ms - one.timestamp_ms <= LONG_MAX)
        need(one.timestamp_type in (0, 1))
        need(0 <= one.log_start <= LONG_MAX)
        need(-LONG_MAX - 1 <= one.detail <= LONG_MAX)
        need((one.base_offset == -1) if one.verdict > 1 else (0 <= one.base_offset <= LONG_MAX - one.record_count))
        need(one.verdict != 0 or one.detail == 0)
        if (one.producer_id, one.producer_epoch, one.base_sequence) != (-1, -1, -1):
            need(0 <= one.producer_id <= LONG_MAX)
            need(0 <= one.producer_epoch <= INT_MAX)
            need(-INT_MAX - 1 <= one.base_sequence <= INT_MAX)
            need(one.base_sequence >= 0 or one.verdict > 1)


def write(file: FileCommitted, level: int) -> bytes:
    """The entry of a file. Raises NotAFile."""
    check(file)
    batches = file.batches
    runs = list(runs_of(batches))
    topics = [topic for topic, _ in groupby(one.topic_id for one in batches)]
    idempotent = [(place, one) for place, one in enumerate(batches) if one.producer_id >= 0]
    others = [(place, one) for place, one in enumerate(batches) if one.verdict > 0]
    try:
        key = file.object_key.encode()
    except UnicodeEncodeError as error:
        raise NotAFile from error
    steps = [before is None or before[0].topic_id != run[0].topic_id for before, run in zip([None, *runs], runs, strict=False)]
    ends = [0, *(one.byte_offset + one.byte_size for one in batches)]
    columns: list[tuple[bool, list[int]]] = [
        (False, [len(run) for run in runs]),
        (False, [int(step) for step in steps]),
        (False, [run[0].partition for run in runs]),
        (False, [next((one.base_offset for one in run if one.verdict == 0), 0) for run in runs]),
        (True, [run[0].log_start for run in runs]),
        (True, [one.byte_offset - end for one, end in zip(batches, ends, strict=False)]),
        (False, [one.byte_size for one in batches]),
        (False, [one.record_count - 1 for one in batches]),
        (False, [file.append_time_ms - one.timestamp_ms for one in batches]),
        (True, [one.timestamp_type for one in batches]),
        (False, [place - before for (before, _), (place, _) in pairwise([(0, None), *idempotent])]),
        (False, [one.producer_id for _, one in idempotent]),
        (False, [one.producer_epoch for _, one in idempotent]),
        (False, [one.base_sequence for _, one in idempotent]),
        (False, [place - before for (before, _), (place, _) in pairwise([(0, None), *others])]),
        (False, [one.verdict for _, one in others]),
        (False, [one.base_offset for _, one in others]),
        (False, [one.detail for _, one in others]),
    ]
    present = [any(numbers) for is_sparse, numbers in columns if is_sparse]
    mask = sum(1 << bit for bit, is_present in enumerate(present) if is_present)
    head = [len(batches), len(runs), len(topics), len(idempotent), len(others), file.object_format, file.file_size]
    head += [file.uploader_broker_id, file.created_ms, file.append_time_ms, len(key), len(file.owner_ids), *file.owner_ids]
    numbers = [number for is_sparse, column in columns if any(column) or not is_sparse for number in column]
    parts = [bytes([1, mask]), *map(varint, head), key, file.content_hash, *topics, *map(varint, numbers)]
    record = b"".join(parts)
    return PREFIXES[level] + varint(len(record)) + record + b"\0"


def read(value: bytes) -> FileCommitted:
    """The file whose entry these bytes are. Raises NotAFile for everything else."""
    level = next((level for level, prefix in PREFIXES.items() if value.startswith(prefix)), None)
    if level is None:
        raise NotAFile
    source = Source(value[12:])
    need(source.number() == len(source.data) - 1)
    need(source.take(1) == b"\1")
    mask = source.take(1)[0]
    counts = [source.number(0, len(value)) for _ in range(5)]
    batch_count, run_count, topic_count, idempotent_count, other_count = counts
    object_format, file_size = source.number(-INT_MAX - 1, INT_MAX), source.number()
    uploader, created_ms, append_time_ms = source.number(-INT_MAX - 1, INT_MAX), source.number(), source.number()
    key_size, owner_count = source.number(), source.number(0, len(value))
    owner_ids = [source.number(-INT_MAX - 1, INT_MAX) for _ in range(owner_count)]
    try:
        key = source.take(key_size).decode()
    except UnicodeDecodeError as error:
        raise NotAFile from error
    content_hash = source.take(16)
    topics = [source.take(16) for _ in range(topic_count)]

    def column(count: int, least: int, greatest: int, bit: int = 0) -> list[int]:
        return [source.number(least, greatest) for _ in range(count)] if not bit or mask & bit else [0] * count

    lengths, steps, partitions = column(run_count, 1, INT_MAX), column(run_count, 0, 1), column(run_count, 0, INT_MAX)
    bases, log_starts = column(run_count, 0, LONG_MAX), column(run_count, 0, LONG_MAX, 1)
    need(sum(lengths) == batch_count)
    gaps, sizes = column(batch_count, -LONG_MAX - 1, LONG_MAX, 2), column(batch_count, 0, INT_MAX)
    counts_less = column(batch_count, 0, INT_MAX)
    ages, types = column(batch_count, -LONG_MAX - 1, LONG_MAX), column(batch_count, 0, 1, 4)
    producers = _places(column(idempotent_count, 0, INT_MAX), batch_count)
    producer_ranges = ((0, LONG_MAX), (0, INT_MAX), (-INT_MAX - 1, INT_MAX))
    of_producers = zip(*(column(idempotent_count, *both) for both in producer_ranges), strict=True)
    producer_at = dict(zip(producers, of_producers, strict=True))
    refused = _places(column(other_count, 0, INT_MAX), batch_count)
    ranges = ((1, 6), (-1, LONG_MAX), (-LONG_MAX - 1, LONG_MAX))
    other_at = dict(zip(refused, zip(*(column(other_count, *both) for both in ranges), strict=True), strict=True))
    need(source.data == b"\0")
    batches: list[CommittedBatch] = []
    topic, end = -1, 0
    for run in range(run_count):
        topic, due = topic + steps[run], bases[run]
        need(0 <= topic < topic_count)
        for place in range(len(batches), len(batches) + lengths[run]):
            verdict, base, detail = other_at.get(place, (0, due, 0))
            due += 0 if verdict else counts_less[place] + 1
            producer_id, epoch, sequence = producer_at.get(place, (-1, -1, -1))
            batch = CommittedBatch(
                topics[topic], partitions[run], verdict, base, counts_less[place] + 1, end + gaps[place], sizes[place],
                append_time_ms - ages[place], types[place], producer_id, epoch, sequence, log_starts[run], detail,
            )  # fmt: skip
            end = batch.byte_offset + batch.byte_size
            batches.append(batch)
    file = FileCommitted(
        object_key=key,
        object_format=object_format,
        file_size=file_size,
        uploader_broker_id=uploader,
        owner_ids=owner_ids,
        created_ms=created_ms,
        append_time_ms=append_time_ms,
        content_hash=content_hash,
        batches=batches,
    )
    # A file has one form: runs and topics that could be fewer, masks of columns that are all 0 and the like are none.
    need(write(file, level) == value)
    return file


def _places(distances: Sequence[int], count: int) -> list[int]:
    places = [sum(distances[: index + 1]) for index in range(len(distances))]
    need(all(0 <= place < count for place in places))
    need(len(set(places)) == len(places))
    return places
