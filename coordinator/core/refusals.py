"""Answers with one error for every element of a request: the KIP's responses have no field for a request-wide one."""

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
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.names import topic_id_text


def refuse(command: Command, error: ErrorCode, message: str) -> Answer:
    """The answer of this command with one error throughout; each message names the file, topic or partition that it is about."""

    def of(what: str) -> Outcome:
        return Outcome(error=error, message=f"{what}: {message}")

    outcome = Outcome(error=error, message=message)
    match command:
        case CommitFile():
            return CommitResult.refused(len(command.batches), error, f"file {command.object_key}: {message}")
        case PlacePartitions():
            return [outcome] * len(command.shares)
        case RemoveTopics():
            return [outcome] * len(command.removals)
        case DeleteRecords():
            return [DeletedTo(outcome=of(f"{topic_id_text(one.topic_id)}:{one.partition}")) for one in command.points]
        case CreateTopics():
            return [of(f"topic {one.name}") for one in command.topics]
        case DeleteTopics():
            return [of(f"topic id {topic_id_text(one)}") for one in command.topic_ids]
        case ListOffsets():
            return [FoundOffset(outcome=of(f"{topic_id_text(one.topic_id)}:{one.partition}")) for one in command.queries]
        case DescribeFiles():
            return [DescribedFile(outcome=of(f"file {one}")) for one in command.object_keys]
        case ConfirmPlaced() | ConfirmDeleted() | RegisterNode() | RaiseSchemaLevel() | Barrier():
            return outcome
