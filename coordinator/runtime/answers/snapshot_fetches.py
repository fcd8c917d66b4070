"""Answers FetchSnapshot from the snapshots in the data directory of this node, whether it leads or not."""

from __future__ import annotations

import logging
from typing import Final

from coordinator.core.state.damage import StateFailed
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.snapshot_fetches import SnapshotAnswer, SnapshotQuestion, fetch_snapshot_response, snapshot_questions
from coordinator.protocol.codec import Message
from coordinator.runtime.node.node import Node
from records.snapshot import SnapshotId

LOG = logging.getLogger("coordinator.snapshots")

FETCH_BYTES_MAX: Final = 1024 * 1024
"""An answer has no more bytes of snapshots, whatever is asked for."""


async def fetch_snapshot(node: Node, version: int, request: Message) -> Message:
    """Answer FetchSnapshot. The bytes allowed are those of all partitions together: each gets the average, and what earlier ones left."""
    cluster_id, max_bytes, questions = snapshot_questions(request)
    facts = node.topic.facts
    if facts is None:
        return fetch_snapshot_response(version, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    if cluster_id is not None and cluster_id != facts.cluster_id:
        return fetch_snapshot_response(version, ErrorCode.INCONSISTENT_CLUSTER_ID)
    if max_bytes < 0:
        return fetch_snapshot_response(version, ErrorCode.INVALID_REQUEST)
    left = min(max_bytes, FETCH_BYTES_MAX)
    answered = []
    for number, one in enumerate(questions):
        answer = await _answer(node, one, left // (len(questions) - number))
        left -= len(answer.data)
        leader = node.view.leader(one.partition)
        answered.append((one, answer if leader is None else answer._replace(leader=(leader.node_id, leader.epoch))))
    return fetch_snapshot_response(version, ErrorCode.NONE, answered)


async def _answer(node: Node, asked: SnapshotQuestion, max_bytes: int) -> SnapshotAnswer:
    if asked.topic != node.config.topic or not node.replicas.follows(asked.partition):
        return SnapshotAnswer(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    try:
        piece = await node.workers.snapshots.read(asked.partition, SnapshotId(asked.end_offset, asked.epoch), asked.position, max_bytes)
    except StateFailed as failed:
        LOG.error("snapshot cannot be read partition=%d reason=%r", asked.partition, str(failed))
        return SnapshotAnswer(ErrorCode.UNKNOWN_SERVER_ERROR)
    if piece is None:
        return SnapshotAnswer(ErrorCode.SNAPSHOT_NOT_FOUND)
    if not 0 <= asked.position <= piece.size:
        return SnapshotAnswer(ErrorCode.POSITION_OUT_OF_RANGE, piece.size)
    return SnapshotAnswer(ErrorCode.NONE, piece.size, piece.data)
