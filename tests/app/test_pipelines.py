"""Requests of many kinds on one connection, cut anywhere: each gets its own answer, in order, and commits take effect in theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from random import Random

import pytest

from coordinator.kafka.errors import ErrorCode
from coordinator.operations.files import COMMIT_FILE
from coordinator.protocol.api_keys import ApiKey
from coordinator.protocol.codec import decode, encode
from coordinator.protocol.commit_file import BATCH, CommitFileBody, decode_commit_response, encode_commit_file
from coordinator.protocol.framing import read_correlation_id, reply_body, request_frame
from coordinator.protocol.messages import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tests.app.test_commits import listening, replies
from tests.app.topics import NOWHERE, ONE, SPREAD
from tests.core.build import batch, commit
from tests.runtime.nodes import TIMEOUT_MS

RECORDS = 3
CLIENT_IDS = (None, "", "client", "broker-7", "c" * 300)
KIP_COMMIT_FILE = COMMIT_FILE.key - 10_000
OF_COMMITS = {
    "one": [(ONE, 0)], "two batches": [(ONE, 0), (ONE, 0)], "several owners": [(SPREAD, 0), (SPREAD, 1), (ONE, 0)],
    "unknown": [(NOWHERE, 0)], "negative partition": [(ONE, -1)], "too large a partition": [(ONE, 2**31 - 1)], "empty": [],
}  # fmt: skip


class Expected:
    """What the answers have to be, as far as requests before them decide it."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._next_offset = 0
        self._files = 0
        self.frames: list[bytes] = []
        self._checks: list[Callable[[bytes], None]] = []
        self._numbers: list[int] = []

    def add(self) -> None:
        """Draw a request."""
        kind = self._random.choice([*OF_COMMITS, "one", "one", "one", "late", "read", "versions"])
        client_id = self._random.choice(CLIENT_IDS) if self._random.random() < 0.2 else "client"
        # Correlation ids may be the same, and have all of 32 bits.
        number = self._random.choice([0, -1, 2**31 - 1, -(2**31), len(self.frames)])
        self._numbers.append(number)
        if kind == "read":
            topic = ListOffsetsTopic(topic_id=ONE, partitions=(ListOffsetsPartition(partition_index=0, timestamp=-1),))
            body = encode(ListOffsetsRequest(topics=(topic,), timeout_ms=TIMEOUT_MS))
            self.frames.append(request_frame(ApiKey.LIST_OFFSETS, 0, number, client_id, body))
            self._checks.append(self._read(self._next_offset))
        elif kind == "versions":
            self.frames.append(request_frame(ApiKey.API_VERSIONS, 0, number, client_id, b"", flexible=False))
            self._checks.append(self._versions)
        else:
            self._commit(kind, number, client_id)

    def _commit(self, kind: str, number: int, client_id: str | None) -> None:
        places = OF_COMMITS.get(kind, [(ONE, 0)])
        rows = commit("", [batch(partition, RECORDS, topic_id=topic_id) for topic_id, partition in places]).batches.view(BATCH)
        timeout_ms = self._random.choice([0, -1, -(2**31)]) if kind == "late" else TIMEOUT_MS
        self._files += 1
        body = encode_commit_file(CommitFileBody(f"file-{self._files}", 1, 1 << 20, [0, 1], rows, timeout_ms))
        self.frames.append(request_frame(self._random.choice([COMMIT_FILE.key, KIP_COMMIT_FILE]), 0, number, client_id, body))
        error, offsets = ErrorCode.NONE, list[int]()
        if kind == "late":
            error = ErrorCode.INVALID_REQUEST
        elif kind == "unknown":
            error = ErrorCode.UNKNOWN_TOPIC_ID
        elif "partition" in kind:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            for topic_id, _ in places:
                offsets.append(self._next_offset if topic_id == ONE else -1)
                self._next_offset += RECORDS * (topic_id == ONE)
        self._checks.append(self._committed(len(places), error, offsets))

    def _committed(self, count: int, error: ErrorCode, offsets: list[int]) -> Callable[[bytes], None]:
        def check(body: bytes) -> None:
            results = decode_commit_response(body).results
            assert results["error_code"].tolist() == [int(error)] * count
            told = zip(results["base_offset"].tolist(), offsets, strict=False)
            assert all(offset == expected for offset, expected in told if expected >= 0)

        return check

    def _read(self, offset: int) -> Callable[[bytes], None]:
        def check(body: bytes) -> None:
            assert decode(ListOffsetsResponse, body).topics[0].partitions[0].offset == offset

        return check

    def _versions(self, body: bytes) -> None:
        assert body[:2] == bytes(2)

    def check(self, answers: list[bytes]) -> None:
        """Compare."""
        assert [read_correlation_id(one) for one in answers] == self._numbers
        for frame, answer, check in zip(self.frames, answers, self._checks, strict=True):
            is_tagged = int.from_bytes(frame[4:6], "big") != ApiKey.API_VERSIONS
            check(reply_body(answer, tagged=is_tagged))


def pieces(random: Random, data: bytes) -> list[bytes]:
    cuts = sorted({0, len(data), *(random.randrange(len(data)) for _ in range(random.choice([0, 1, 5, 60])))})
    return [data[start:stop] for start, stop in pairwise(cuts)]


@pytest.mark.parametrize("seed", range(6))
async def test_each_request_gets_its_answer_in_order_and_commits_take_effect_in_theirs(seed: int) -> None:
    random = Random(seed)
    async with listening() as (_, _, server, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        expected = Expected(random)
        for _ in range(random.choice([5, 60, 300])):
            expected.add()
        answers = asyncio.ensure_future(replies(reader, len(expected.frames)))
        for piece in pieces(random, b"".join(expected.frames)):
            writer.write(piece)
            await asyncio.sleep(0)
        expected.check(await answers)
        assert server.stats.requests.total() == len(expected.frames)
        writer.close()
