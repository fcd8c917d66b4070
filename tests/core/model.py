"""An oracle of CommitFile, DeleteRecords, ListOffsets and FindBatches: slow, plain, and written from the rules alone.

It knows nothing of the log, of groups or of columns: one request after the other, on dictionaries and lists.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Row = dict[str, object]
PartitionId = tuple[bytes, int]
Element = tuple[int, int, int, int, bool]
"""(error, base offset, append time, log start, is duplicate)"""

WRAP = 1 << 31
MAX_AGE_MS = 900_000
RETENTION_MS = 1_800_000


@dataclass
class ModelBatch:
    key: str
    byte_offset: int
    size: int
    base: int
    last: int
    append_ms: int
    max_timestamp: int
    is_append_time: bool

    @property
    def effective(self) -> int:
        return self.append_ms if self.is_append_time else self.max_timestamp


@dataclass
class ModelProducer:
    epoch: int
    batches: list[tuple[int, int, int, int]] = field(default_factory=list)
    """(first sequence, last sequence, base offset, time of the answer), oldest first."""


@dataclass
class ModelPartition:
    high_watermark: int = 0
    log_start: int = 0
    batches: list[ModelBatch] = field(default_factory=list)
    producers: dict[int, ModelProducer] = field(default_factory=dict)


@dataclass
class ModelFile:
    content: object
    answer: list[Element]
    append_ms: int


@dataclass
class ModelRequest:
    """A commit as the model sees it; every row has the names of the wire, `topic` and `partition`."""

    key: str
    rows: list[Row]
    owners: list[int]
    object_format: int
    file_size: int
    created_ms: int


def _int(row: Row, name: str) -> int:
    value = row[name]
    assert isinstance(value, int)
    return value


def _span(row: Row) -> int:
    return _int(row, "last_offset") - _int(row, "base_offset") + 1


class Model:
    """Coordinator 0 of four."""

    def __init__(self) -> None:
        self.partitions: dict[PartitionId, ModelPartition] = {}
        self.topics: set[bytes] = set()
        self.files: dict[str, ModelFile] = {}
        self.log_time_ms = 0

    def create(self, topic_id: bytes, count: int) -> None:
        self.topics.add(topic_id)
        for partition in range(count):
            self.partitions.setdefault((topic_id, partition), ModelPartition())

    # ---- CommitFile

    def commit(self, request: ModelRequest, now_ms: int) -> list[Element]:
        rows = request.rows
        content = self._content(request)
        known = self.files.get(request.key)
        if known is not None:
            expired = max(now_ms, self.log_time_ms) - known.append_ms > RETENTION_MS
            return _refused(rows, 92) if known.content != content or expired else known.answer
        error = self._request_error(request, now_ms)
        if error:
            return _refused(rows, error)
        if not rows:
            return []
        errors = [self._missing(row) for row in rows]
        if any(errors):
            return [(error or 15, -1, -1, -1, False) for error in errors]
        self.log_time_ms = max(self.log_time_ms, now_ms)
        answer = [self._take(request.key, row) for row in rows]
        self.files[request.key] = ModelFile(content, answer, self.log_time_ms)
        return answer

    @staticmethod
    def _content(request: ModelRequest) -> object:
        rows = [sorted((name, value) for name, value in row.items() if name != "request_id") for row in request.rows]
        return request.object_format, request.file_size, request.owners, rows

    def _request_error(self, request: ModelRequest, now_ms: int) -> int:
        owners = request.owners
        if not 1 <= len(request.key.encode()) <= 1024 or request.object_format != 1 or request.file_size < 0:
            return 42
        if len(owners) > 64 or len(owners) != len(set(owners)) or min(owners, default=0) < 0:
            return 42
        if max(owners, default=0) >= 4:
            return 15
        if 0 not in owners or (request.created_ms >= 0 and now_ms - request.created_ms > MAX_AGE_MS):
            return 42
        taken: list[tuple[int, int]] = []
        for row in request.rows:
            start, size = _int(row, "byte_offset"), _int(row, "size")
            if start < 0 or size <= 0 or start + size > request.file_size or row["magic"] != 2:
                return 42
            if any(start < end and begin < start + size for begin, end in taken):
                return 42
            taken.append((start, start + size))
            if _int(row, "base_offset") < 0 or not 1 <= _span(row) <= WRAP:
                return 42
            if row["timestamp_type"] not in (0, 1) or _int(row, "max_timestamp") < -1:
                return 42
        return 0

    def _missing(self, row: Row) -> int:
        topic, partition = row["topic"], row["partition"]
        assert isinstance(topic, bytes)
        assert isinstance(partition, int)
        if topic not in self.topics:
            return 100
        return 0 if (topic, partition) in self.partitions else 3

    def _partition(self, row: Row) -> ModelPartition:
        topic = row["topic"]
        assert isinstance(topic, bytes)
        return self.partitions[topic, _int(row, "partition")]

    def _take(self, key: str, row: Row) -> Element:
        partition = self._partition(row)
        producer_id, epoch = _int(row, "producer_id"), _int(row, "producer_epoch")
        first, last, count = _int(row, "base_sequence"), _int(row, "last_sequence"), _span(row)
        is_idempotent = producer_id >= 0 and epoch >= 0
        producer = partition.producers.get(producer_id)
        if is_idempotent:
            if first < 0 or last != (first + count - 1) % WRAP:
                return _rejected(42)
            if producer is None:
                if partition.high_watermark == 0 and first != 0:
                    return _rejected(45)
            else:
                if epoch < producer.epoch:
                    return _rejected(47)
                if epoch > producer.epoch and first != 0:
                    return _rejected(45)
                if epoch == producer.epoch:
                    for known in producer.batches:
                        if known[:2] == (first, last):
                            return 0, known[2], known[3], partition.log_start, True
                    if first != (producer.batches[-1][1] + 1) % WRAP:
                        return _rejected(45)
        base = partition.high_watermark
        partition.high_watermark += count
        is_append_time = row["timestamp_type"] == 1
        time = self.log_time_ms if is_append_time else -1
        size, byte_offset = _int(row, "size"), _int(row, "byte_offset")
        partition.batches.append(
            ModelBatch(key, byte_offset, size, base, base + count - 1, self.log_time_ms, _int(row, "max_timestamp"), is_append_time)
        )
        if is_idempotent:
            if producer is None or producer.epoch != epoch:
                producer = partition.producers[producer_id] = ModelProducer(epoch)
            producer.batches = [*producer.batches, (first, last, base, time)][-5:]
        return 0, base, time, partition.log_start, False

    # ---- DeleteRecords, ListOffsets, FindBatches

    def delete_records(self, where: PartitionId, offset: int) -> tuple[int, int]:
        """(error, low watermark)"""
        if where not in self.partitions:
            return (3 if where[0] in self.topics else 100), -1
        partition = self.partitions[where]
        target = partition.high_watermark if offset == -1 else offset
        if target < 0 or target > partition.high_watermark:
            return 1, -1
        partition.log_start = max(partition.log_start, target)
        partition.batches = [b for b in partition.batches if b.last >= partition.log_start]
        return 0, partition.log_start

    def list_offset(self, where: PartitionId, timestamp: int) -> tuple[int, int, int]:
        """(error, timestamp, offset)"""
        if where not in self.partitions:
            return (3 if where[0] in self.topics else 100), -1, -1
        partition = self.partitions[where]
        if timestamp == -1:
            return 0, -1, partition.high_watermark
        if timestamp in (-2, -4):
            return 0, -1, partition.log_start
        if timestamp == -3:
            greatest = max((b.effective for b in partition.batches), default=-1)
            return next(((0, greatest, b.last) for b in partition.batches if b.effective == greatest), (0, -1, -1))
        if timestamp == -5:
            return 0, -1, -1
        if timestamp < 0:
            return 35, -1, -1
        hits = ((0, b.effective, max(partition.log_start, b.base)) for b in partition.batches if b.effective >= timestamp)
        return next(hits, (0, -1, -1))

    def find(
        self, points: list[tuple[PartitionId, int, int]], max_bytes: int, max_batches: int
    ) -> list[tuple[int, int, int, list[ModelBatch]] | None]:
        """(error, log start, high watermark, batches) per (partition, offset, partition bytes); None: past the end."""
        answers: list[tuple[int, int, int, list[ModelBatch]] | None] = []
        total = 0
        for where, offset, partition_max in points:
            if where not in self.partitions:
                answers.append(((3 if where[0] in self.topics else 100), -1, -1, []))
                continue
            partition = self.partitions[where]
            if offset > partition.high_watermark:
                answers.append(None)
                continue
            bounds = partition.log_start, partition.high_watermark
            if offset < partition.log_start:
                answers.append((1, *bounds, []))
                continue
            here: list[ModelBatch] = []
            for b in [b for b in partition.batches if b.last >= offset]:
                within = sum(x.size for x in here) < partition_max and total < max_bytes
                if (max_batches and len(here) == max_batches) or not (total == 0 or within):
                    break
                here.append(b)
                total += b.size
            answers.append((0, *bounds, here))
        return answers


def _refused(rows: list[Row], error: int) -> list[Element]:
    return [_rejected(error) for _ in rows]


def _rejected(error: int) -> Element:
    return error, -1, -1, -1, False
