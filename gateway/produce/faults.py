"""What can be wrong with the records of a partition in a Produce request, and how a broker of Kafka 4.3 refuses it.

`checks_loops` finds faults; the codes and the order of the checks are those of `ProduceRequest.validateRecords`,
`UnifiedLog.analyzeAndValidateRecords` and `LogValidator`. Two faults are refused here that a broker would mend: records that do not
have the offsets 0, 1, 2 .. within their batch, and bytes after the batch. The gateway stores a batch as it came, and every reader would
see them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from coordinator.kafka.errors import ErrorCode

(
    NO_BATCH,
    BAD_LENGTH,
    BAD_MAGIC,
    OLD_MAGIC,
    OLD_ZSTD,
    BYTES_AFTER,
    BASE_OFFSET_SET,
    TOO_LARGE,
    BAD_CRC,
    BAD_CODEC,
    BAD_COUNT,
    CONTROL,
    TRANSACTIONAL,
    BAD_SEQUENCE,
    BAD_EPOCH,
    APPEND_TIME_SET,
    BAD_TIMES,
    BAD_RECORD,
    BATCH_TIMES,
) = range(1, 20)

RECORD_ERRORS_MAX: Final = 100
"""Records of one batch that a refusal names; more may be wrong."""

NO_TRANSACTIONS: Final = "transactions are not supported on diskless topics: write without transactional.id, or to a classic topic"


class BatchFault(NamedTuple):
    """A fault of a partition's records, by the partition's place in the request; what `first` and `second` are depends on `reason`."""

    place: int
    reason: int
    first: int
    second: int


class PartitionRefusal(NamedTuple):
    """How a partition is refused; `records` has the place in the batch and the fault of single records."""

    code: ErrorCode
    message: str
    records: Sequence[tuple[int, str]] = ()


_CODES: Final[Mapping[int, ErrorCode]] = {
    NO_BATCH: ErrorCode.INVALID_RECORD,
    BAD_LENGTH: ErrorCode.CORRUPT_MESSAGE,
    BAD_MAGIC: ErrorCode.CORRUPT_MESSAGE,
    OLD_MAGIC: ErrorCode.INVALID_RECORD,
    OLD_ZSTD: ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    BYTES_AFTER: ErrorCode.INVALID_RECORD,
    BASE_OFFSET_SET: ErrorCode.INVALID_RECORD,
    TOO_LARGE: ErrorCode.MESSAGE_TOO_LARGE,
    BAD_CRC: ErrorCode.CORRUPT_MESSAGE,
    BAD_CODEC: ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    BAD_COUNT: ErrorCode.INVALID_RECORD,
    CONTROL: ErrorCode.INVALID_RECORD,
    TRANSACTIONAL: ErrorCode.INVALID_TXN_STATE,
    BAD_SEQUENCE: ErrorCode.INVALID_RECORD,
    BAD_EPOCH: ErrorCode.INVALID_RECORD,
    APPEND_TIME_SET: ErrorCode.INVALID_TIMESTAMP,
    BAD_TIMES: ErrorCode.INVALID_TIMESTAMP,
    BAD_RECORD: ErrorCode.INVALID_RECORD,
    BATCH_TIMES: ErrorCode.INVALID_TIMESTAMP,
}
_TEXTS: Final[Mapping[int, str]] = {
    NO_BATCH: "{second} bytes of records; a partition of a Produce request must have exactly one whole record batch",
    BAD_LENGTH: "the record batch says that it has {first} bytes after its length; a header alone has more",
    BAD_MAGIC: "there is no record batch of magic {first}",
    OLD_MAGIC: "record batches of magic {first} are not accepted; only those of magic 2 are",
    OLD_ZSTD: "zstd is accepted from version 7 of Produce on; this request has version {first}",
    BYTES_AFTER: "{first} bytes follow the record batch; a partition of a Produce request must have exactly one record batch",
    BASE_OFFSET_SET: "the base offset of the record batch should be 0, but it is {first}",
    TOO_LARGE: "the record batch has {first} bytes, max.message.bytes of the topic is {second}",
    BAD_CRC: "the record batch is corrupt: its checksum is {first}, that of its bytes is {second}",
    BAD_CODEC: "compression type {first} is unknown",
    BAD_COUNT: "the record batch says that it has {first} records, and that its last offset is {second}",
    CONTROL: "clients are not allowed to write control records",
    TRANSACTIONAL: NO_TRANSACTIONS,
    BAD_SEQUENCE: "sequence number {first} in the record batch of producer id {second}",
    BAD_EPOCH: "producer epoch {first} in the record batch of producer id {second}",
    APPEND_TIME_SET: "producers should not set the timestamp type to LogAppendTime",
    BAD_TIMES: "one or more records have been rejected due to invalid timestamp",
    BAD_RECORD: "record {first} of the batch is malformed, at its byte {second}",
    BATCH_TIMES: "the record batch has timestamps from {first} to {second}, which the topic does not accept",
}


def refusal_of(
    fault: BatchFault, topic: str, partition: int, records: Sequence[tuple[int, int]], span_ms: tuple[int, int]
) -> PartitionRefusal:
    """Say how a partition is refused. `records` has place and timestamp of those that are not within `span_ms`."""
    text = _TEXTS[fault.reason].format(first=fault.first, second=fault.second)
    if fault.reason == BATCH_TIMES:
        text = f"{text}: {_should_be(span_ms)}"
    errors = [(place, f"timestamp {time} of record {place} is out of range; {_should_be(span_ms)}") for place, time in records]
    return PartitionRefusal(_CODES[fault.reason], f"{topic}-{partition}: {text}", errors)


def _should_be(span_ms: tuple[int, int]) -> str:
    return f"it should be within [{span_ms[0]}, {span_ms[1]}] (message.timestamp.before.max.ms, message.timestamp.after.max.ms)"
