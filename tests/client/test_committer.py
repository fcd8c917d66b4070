"""Order across files: one file with unknown outcome per user partition, everything else at the same time."""

from __future__ import annotations

import asyncio

import pytest

from coordinator.adapters.server.contract import IncomingRequest, Respond
from coordinator.client.records.committer import Committer, EarlierOutcomeUnknown
from coordinator.protocol.api_keys import ApiKey
from coordinator.protocol.commit_file import decode_commit_file
from tests.client.scripted import ScriptedNode, scripted
from tests.client.test_client import TOPIC, batches, client_of
from tests.server.lines import until
from tests.waiting import stays


class Hold:
    """Holds commits back until the test lets them go."""

    def __init__(self) -> None:
        self.held: dict[str, tuple[ScriptedNode, IncomingRequest, Respond]] = {}

    def __call__(self, node: ScriptedNode, request: IncomingRequest, respond: Respond) -> bool:
        if request.api_key != ApiKey.COMMIT_FILE:
            return False
        self.held[decode_commit_file(request.data, request.body_offset).object_key] = (node, request, respond)
        return True

    def release(self, key: str) -> None:
        node, request, respond = self.held.pop(key)
        respond(node.answer(request))


async def test_files_that_share_a_partition_wait_for_each_other_and_others_do_not() -> None:
    async with scripted(nodes=1, coordinators=1) as cluster, client_of(cluster) as client, Committer(client) as committer:
        cluster.add_topic(TOPIC, "t", 4)
        hold = Hold()
        cluster.nodes[1].trouble.append(hold)
        first = committer.submit("a", 200, batches(0, 1))
        second = committer.submit("b", 200, batches(1, 2))
        third = committer.submit("c", 100, batches(2))
        apart = committer.submit("d", 100, batches(3))
        await until(lambda: set(hold.held) == {"a", "d"})
        hold.release("a")
        assert (await first).is_ok
        await until(lambda: set(hold.held) == {"d", "b"})
        hold.release("d")
        hold.release("b")
        assert (await second).base_offsets.tolist() == [1, 0]
        await until(lambda: set(hold.held) == {"c"})
        hold.release("c")
        assert (await third).base_offsets.tolist() == [1]
        assert (await apart).is_ok
        assert committer.pending_count == 0
        assert cluster.nodes[1].server.stats.connections_opened == 2  # one for discovery, one for all commits


async def test_without_order_nothing_waits() -> None:
    async with scripted(nodes=1, coordinators=1) as cluster, client_of(cluster) as client:
        cluster.add_topic(TOPIC, "t", 1)
        hold = Hold()
        cluster.nodes[1].trouble.append(hold)
        async with Committer(client, ordered=False, in_flight_max=2) as committer:
            tasks = [committer.submit(key, 100, batches(0)) for key in "abc"]
            await until(lambda: set(hold.held) == {"a", "b"})
            hold.release("a")
            await until(lambda: set(hold.held) == {"b", "c"})
            hold.release("c")
            hold.release("b")
            assert all(outcome.is_ok for outcome in await asyncio.gather(*tasks))


async def test_an_unknown_outcome_blocks_its_partitions_until_it_is_known() -> None:
    async with scripted(nodes=1, coordinators=1) as cluster, client_of(cluster, request_timeout_ms=1_000) as client:
        cluster.add_topic(TOPIC, "t", 3)
        hold = Hold()
        committer = Committer(client)
        cluster.nodes[1].trouble.append(hold)
        lost = committer.submit("a", 200, batches(0, 1), timeout_ms=2_000)
        behind = committer.submit("b", 100, batches(1))
        assert not (await lost).is_known
        with pytest.raises(EarlierOutcomeUnknown, match="file b: the outcome of earlier file a is unknown"):
            await behind
        cluster.nodes[1].trouble.clear()
        assert (await committer.submit("c", 100, batches(2))).is_ok
        with pytest.raises(EarlierOutcomeUnknown):
            await committer.submit("d", 100, batches(0))
        again = committer.submit("a", 200, batches(0, 1))
        after = committer.submit("b", 100, batches(1))
        assert (await again).base_offsets.tolist() == [0, 0]
        assert (await after).base_offsets.tolist() == [1]


async def test_an_abandoned_file_blocks_nothing() -> None:
    async with scripted(nodes=1, coordinators=1) as cluster, client_of(cluster, request_timeout_ms=1_000) as client:
        cluster.add_topic(TOPIC, "t", 1)
        hold = Hold()
        committer = Committer(client)
        cluster.nodes[1].trouble.append(hold)
        assert not (await committer.submit("a", 100, batches(0), timeout_ms=2_000)).is_known
        cluster.nodes[1].trouble.clear()
        committer.abandon("a")
        assert (await committer.submit("b", 100, batches(0))).is_ok


async def test_a_file_this_client_refuses_blocks_nothing() -> None:
    async with scripted(nodes=1, coordinators=1) as cluster, client_of(cluster) as client:
        cluster.add_topic(TOPIC, "t", 1)
        committer = Committer(client)
        with pytest.raises(ValueError, match="CommitFileRequest"):
            await committer.submit("a", 1 << 70, batches(0))
        assert (await committer.submit("b", 100, batches(0))).is_ok
        await committer.flush()


@pytest.mark.parametrize("is_sent", [True, False], ids=["the file before is sent", "the file before waits to be sent"])
@pytest.mark.parametrize("is_behind", [True, False], ids=["a later file waits already", "a later file comes afterwards"])
async def test_no_file_overtakes_those_before_one_that_is_cancelled_before_its_turn(is_sent: bool, is_behind: bool) -> None:
    async with scripted(nodes=1, coordinators=1) as cluster, client_of(cluster) as client, Committer(client, in_flight_max=2) as committer:
        cluster.add_topic(TOPIC, "t", 3)
        hold = Hold()
        cluster.nodes[1].trouble.append(hold)
        others = [] if is_sent else [committer.submit(key, 100, batches(partition)) for key, partition in (("y", 1), ("z", 2))]
        before = committer.submit("a", 100, batches(0))
        await until(lambda: set(hold.held) == ({"a"} if is_sent else {"y", "z"}))
        cancelled = committer.submit("b", 100, batches(0))
        later = [committer.submit("c", 100, batches(0))] if is_behind else []
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.wait([cancelled])
        later = later or [committer.submit("c", 100, batches(0))]
        for key in () if is_sent else ("y", "z"):
            hold.release(key)
        await asyncio.gather(*others)
        await until(lambda: "a" in hold.held)
        await stays(lambda: set(hold.held) == {"a"}, "the first commit alone", 0.05)  # the time in which it would overtake
        hold.release("a")
        assert (await before).base_offsets.tolist() == [0]
        await until(lambda: set(hold.held) == {"c"})
        hold.release("c")
        assert (await later[0]).base_offsets.tolist() == [1]
        assert cancelled.cancelled()
