"""Moves of partitions between the wire and the core: what operators order, and the steps that the directory has coordinators take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from coordinator.core.commands import (
    AdoptPartition,
    DescribeStretches,
    KnownStretch,
    Outcome,
    ReleasedPartition,
    ReleasePartition,
)
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.declaration import (
    ALTER,
    CLUSTER_ACTION,
    AnsweredBy,
    Lane,
    Operation,
    Translation,
    declare,
    itself,
    refuse_whole,
)
from coordinator.protocol.codec import Message
from coordinator.protocol.messages import (
    AdoptPartitionBatch,
    AdoptPartitionRequest,
    AdoptPartitionResponse,
    AdoptPartitionStretch,
    DescribeStretchesPartition,
    DescribeStretchesRequest,
    DescribeStretchesResponse,
    DescribeStretchesStretch,
    MovePartitionsRequest,
    MovePartitionsResponse,
    ReleasePartitionBatch,
    ReleasePartitionRequest,
    ReleasePartitionResponse,
    ReleasePartitionStretch,
)

if TYPE_CHECKING:
    from records.model import EarlierStretch, SeededProducerBatch

UNKNOWN_TIME_MS: Final = -1

B = TypeVar("B", AdoptPartitionBatch, ReleasePartitionBatch)
S = TypeVar("S", AdoptPartitionStretch, ReleasePartitionStretch, DescribeStretchesStretch)


def _batches(make: type[B], batches: Sequence[SeededProducerBatch]) -> tuple[B, ...]:
    return tuple(
        make(
            producer_id=one.producer_id,
            producer_epoch=one.producer_epoch,
            base_sequence=one.base_sequence,
            last_sequence=one.last_sequence,
            base_offset=one.base_offset,
            timestamp_ms=one.timestamp_ms,
        )
        for one in batches
    )


def _stretches(make: type[S], stretches: Sequence[EarlierStretch]) -> tuple[S, ...]:
    return tuple(
        make(coordinator_id=one.coordinator_id, end_offset=one.end_offset, move_id=one.move_id, time_ms=one.time_ms) for one in stretches
    )


def _earlier(stretches: Sequence[Any]) -> tuple[EarlierStretch, ...]:
    # Only nodes read these; other programs start without the records.
    from records.model import EarlierStretch

    return tuple(
        EarlierStretch(coordinator_id=one.coordinator_id, end_offset=one.end_offset, move_id=one.move_id, time_ms=one.time_ms)
        for one in stretches
    )


def _released(message: AdoptPartitionRequest | ReleasePartitionResponse, outcome: Outcome) -> ReleasedPartition:
    from records.model import SeededProducerBatch

    return ReleasedPartition(
        outcome=outcome,
        name=message.name,
        start_offset=message.start_offset,
        end_offset=message.end_offset,
        time_ms=message.time_ms,
        earlier=_earlier(message.earlier),
        producers=tuple(
            SeededProducerBatch(
                producer_id=one.producer_id,
                producer_epoch=one.producer_epoch,
                base_sequence=one.base_sequence,
                last_sequence=one.last_sequence,
                base_offset=one.base_offset,
                timestamp_ms=one.timestamp_ms,
            )
            for one in message.producers
        ),
    )


# ---- release


def release_request(command: ReleasePartition, coordinator_id: int, timeout_ms: int) -> ReleasePartitionRequest:
    """Return the request to the leader of a coordinator."""
    return ReleasePartitionRequest(
        coordinator_id=coordinator_id,
        topic_id=command.topic_id,
        partition_index=command.partition,
        move_id=command.move_id,
        to_coordinator_id=command.to_coordinator,
        timeout_ms=timeout_ms,
    )


def _release(request: ReleasePartitionRequest) -> list[ReleasePartition]:
    return [
        ReleasePartition(
            topic_id=request.topic_id,
            partition=request.partition_index,
            move_id=request.move_id,
            to_coordinator=request.to_coordinator_id,
        )
    ]


def _release_response(_: ReleasePartitionRequest, answers: Sequence[ReleasedPartition]) -> Message:
    [answer] = answers
    return ReleasePartitionResponse(
        error_code=answer.outcome.error,
        error_message=answer.outcome.message,
        name=answer.name,
        start_offset=answer.start_offset,
        end_offset=answer.end_offset,
        time_ms=answer.time_ms,
        earlier=_stretches(ReleasePartitionStretch, answer.earlier),
        producers=_batches(ReleasePartitionBatch, answer.producers),
    )


def released_of(response: ReleasePartitionResponse) -> ReleasedPartition:
    """Return the answer of a response."""
    return _released(response, Outcome(error=ErrorCode(response.error_code), message=response.error_message))


# ---- adoption


def adopt_request(command: AdoptPartition, coordinator_id: int, timeout_ms: int) -> AdoptPartitionRequest:
    """Return the request to the leader of a coordinator."""
    released = command.released
    return AdoptPartitionRequest(
        coordinator_id=coordinator_id,
        topic_id=command.topic_id,
        partition_index=command.partition,
        move_id=command.move_id,
        name=released.name,
        start_offset=released.start_offset,
        end_offset=released.end_offset,
        time_ms=released.time_ms,
        earlier=_stretches(AdoptPartitionStretch, released.earlier),
        producers=_batches(AdoptPartitionBatch, released.producers),
        timeout_ms=timeout_ms,
    )


def _adopt(request: AdoptPartitionRequest) -> list[AdoptPartition]:
    return [
        AdoptPartition(
            topic_id=request.topic_id, partition=request.partition_index, move_id=request.move_id, released=_released(request, Outcome())
        )
    ]


def _adopt_response(_: AdoptPartitionRequest, answers: Sequence[Outcome]) -> Message:
    [answer] = answers
    return AdoptPartitionResponse(error_code=answer.error, error_message=answer.message)


# ---- what coordinators have


def _stretches_response(_: DescribeStretchesRequest, answers: Sequence[KnownStretch | Outcome]) -> Message:
    refused = next((one for one in answers if isinstance(one, Outcome)), Outcome())
    return DescribeStretchesResponse(
        error_code=refused.error,
        error_message=refused.message,
        partitions=tuple(_stretch_message(one) for one in answers if isinstance(one, KnownStretch)),
    )


def _stretch_message(known: KnownStretch) -> DescribeStretchesPartition:
    stretch = known.stretch
    released = stretch.released
    return DescribeStretchesPartition(
        topic_id=known.topic_id,
        partition_index=known.partition,
        move_id=stretch.move_id,
        base_offset=stretch.base_offset,
        start_offset=known.start_offset,
        earlier=_stretches(DescribeStretchesStretch, stretch.earlier),
        released_move_id=-1 if released is None else released.move_id,
        to_coordinator_id=-1 if released is None else released.to_coordinator,
    )


def known_stretches(response: DescribeStretchesResponse) -> list[KnownStretch]:
    """Return what a coordinator has; when an end was logged, and in which entry, is not told."""
    from coordinator.core.moves import Released, Stretch

    return [
        KnownStretch(
            one.topic_id,
            one.partition_index,
            Stretch(
                base_offset=one.base_offset,
                move_id=one.move_id,
                earlier=_earlier(one.earlier),
                released=None
                if one.released_move_id < 0
                else Released(
                    move_id=one.released_move_id,
                    to_coordinator=one.to_coordinator_id,
                    time_ms=UNKNOWN_TIME_MS,
                    entry_id=-1,
                ),
            ),
            one.start_offset,
        )
        for one in response.partitions
    ]


MOVE_PARTITIONS: Final[Operation] = declare(
    MovePartitionsRequest,
    MovePartitionsResponse,
    answered_by=AnsweredBy.DIRECTORY,
    acl=ALTER,
    lane=Lane.ALONE,
    is_unbounded=True,
    refuse=refuse_whole(MovePartitionsResponse),
    only_looks=lambda request: request.only_check or not request.partitions,
)

RELEASE_PARTITION: Final[Operation] = declare(
    ReleasePartitionRequest,
    ReleasePartitionResponse,
    answered_by=AnsweredBy.COORDINATOR,
    acl=CLUSTER_ACTION,
    lane=Lane.UNORDERED,
    is_internal=True,
    is_unbounded=True,
    translation=Translation(
        elements=_release,
        refused=lambda outcome: ReleasedPartition(outcome=outcome),
        response=_release_response,
        command=lambda elements: elements[0],
    ),
)

ADOPT_PARTITION: Final[Operation] = declare(
    AdoptPartitionRequest,
    AdoptPartitionResponse,
    answered_by=AnsweredBy.COORDINATOR,
    acl=CLUSTER_ACTION,
    lane=Lane.UNORDERED,
    is_internal=True,
    translation=Translation(elements=_adopt, refused=itself, response=_adopt_response, command=lambda elements: elements[0]),
)

DESCRIBE_STRETCHES: Final[Operation] = declare(
    DescribeStretchesRequest,
    DescribeStretchesResponse,
    answered_by=AnsweredBy.COORDINATOR,
    acl=CLUSTER_ACTION,
    lane=Lane.UNORDERED,
    is_internal=True,
    is_unbounded=True,
    translation=Translation(
        elements=lambda request: [DescribeStretches(beside=tuple(request.beside_coordinator_ids))],
        refused=itself,
        response=_stretches_response,
        command=lambda elements: elements[0],
    ),
)
