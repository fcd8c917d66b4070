"""The same error for every element of a request: the KIP's responses have no field for a request-wide one."""

from __future__ import annotations

from coordinator.core.commands import (
    Answer,
    Barrier,
    Command,
    CommitFile,
    CommitResult,
    ConfirmDeleted,
    ConfirmPlaced,
    CreateTopics,
    DeletedTo,
    DeleteRecords,
    DeleteTopics,
    DescribedFile,
    DescribeFiles,
    FoundOffset,
    ListOffsets,
    Outcome,
    PlacePartitions,
    RaiseSchemaLevel,
    RegisterNode,
    RemoveTopics,
)
from coordinator.core.errors import ErrorCode


def refuse(command: Command, error: ErrorCode, message: str) -> Answer:
    """The answer of this command with one error throughout."""
    outcome = Outcome(error=error, message=message)
    match command:
        case CommitFile():
            return CommitResult.refused(len(command.batches), error, message)
        case PlacePartitions():
            return [outcome] * len(command.shares)
        case RemoveTopics():
            return [outcome] * len(command.removals)
        case DeleteRecords():
            return [DeletedTo(outcome=outcome)] * len(command.points)
        case CreateTopics():
            return [outcome] * len(command.topics)
        case DeleteTopics():
            return [outcome] * len(command.topic_ids)
        case ListOffsets():
            return [FoundOffset(outcome=outcome)] * len(command.queries)
        case DescribeFiles():
            return [DescribedFile(outcome=outcome)] * len(command.object_keys)
        case ConfirmPlaced() | ConfirmDeleted() | RegisterNode() | RaiseSchemaLevel() | Barrier():
            return outcome
