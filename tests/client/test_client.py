"""The client against a scripted cluster: splitting, merging, moved leaders, lost connections, dead nodes, deadlines."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable

import numpy as np
import pytest

from coordinator.adapters.server.contract import IncomingRequest, Respond
from coordinator.client.admin import DisklessAdmin
from coordinator.client.client import DisklessClient
from coordinator.client.errors import AlreadyExists, ClientClosed, InvalidRequest, NotFound, TimedOut, Unavailable
from coordinator.client.model import FetchFrom, PartitionId, ServiceNode
from coordinator.client.routing.addresses import parse_servers
from coordinator.client.routing.retry import RetryPolicy
from coordinator.core.commands import FileStanding
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.timestamps import LATEST
from coordinator.protocol.api_keys import ApiKey
from coordinator.protocol.commit_file import BATCH, CommitFileBody, decode_commit_response, encode_commit_file
from coordinator.protocol.find_batches import decode_find_batches_response, encode_find_batches_response
from coordinator.protocol.messages import CommitBatch
from records.levels import LEVEL_LATEST
from tests.client.scripted import ScriptedCluster, ScriptedNode, Trouble, scripted
from tests.commit_batches import commit_batch

TOPIC = bytes(range(16))
OTHER = bytes(range(1, 17))


def batches(*partitions: int, topic_id: bytes = TOPIC, records: int = 1) -> list[CommitBatch]:
    return [
        commit_batch(topic_id, partition, records=records, at=100 * place, request_id=place) for place, partition in enumerate(partitions)
    ]


def client_of(cluster: ScriptedCluster, *, api_timeout_ms: int = 20_000, request_timeout_ms: int = 5_000) -> DisklessClient:
    return DisklessClient(
        cluster.addresses,
        client_id="test",
        request_timeout_ms=request_timeout_ms,
        api_timeout_ms=api_timeout_ms,
        retry=RetryPolicy(backoff_ms=1, backoff_ms_max=8),
    )


def once(api: ApiKey, do: Callable[[ScriptedNode, IncomingRequest, Respond], None]) -> Trouble:
    """Trouble for the first request of a kind."""
    done: list[bool] = []

    def trouble(node: ScriptedNode, request: IncomingRequest, respond: Respond) -> bool:
        if request.api_key != api or done:
            return False
        done.append(True)
        do(node, request, respond)
        return True

    return trouble


def hang_up(_node: ScriptedNode, _request: IncomingRequest, respond: Respond) -> None:
    respond(None)


def process_and_hang_up(node: ScriptedNode, request: IncomingRequest, respond: Respond) -> None:
    node.answer(request)
    respond(None)


async def test_commits_are_split_by_node_and_merged_in_order() -> None:
    async with scripted(nodes=2, coordinators=4) as cluster, client_of(cluster) as client:
        cluster.add_topic(TOPIC, "t", 8)
        order = [7, 0, 3, 0, 5, 2, 1]
        for partition in range(8):
            cluster.ends[PartitionId(TOPIC, partition).key] = 1000 * partition
        outcome = await client.commit_file("k", 700, batches(*order, records=10))
        assert outcome.is_ok
        assert outcome.is_known
        assert outcome.base_offsets.tolist() == [7000, 0, 3000, 10, 5000, 2000, 1000]
        assert sorted(outcome.owner_ids) == [0, 1, 2, 3]
        # One request to each node, which carries its batches in the order of the file.
        assert sorted(node for node, _ in cluster.commits) == [1, 2]
        by_node = dict(cluster.commits)
        assert by_node[1].batches["partition"].tolist() == [0, 0, 2]
        assert by_node[2].batches["partition"].tolist() == [7, 3, 5, 1]
        assert by_node[1].owner_ids == by_node[2].owner_ids == list(outcome.owner_ids)
        assert [batch.base_offset for batch in outcome.batches] == outcome.base_offsets.tolist()


async def test_an_array_of_batches_is_as_good_as_objects() -> None:
    async with scripted() as cluster, client_of(cluster) as client:
        cluster.add_topic(TOPIC, "t", 1)
        row = np.zeros(1, BATCH)
        row["topic_id"], row["magic"], row["size"] = TOPIC, 2, 10
        assert (await client.commit_file("k", 10, row)).is_ok
        assert (await client.commit_file("empty", 0, [])).batches == ()
        with pytest.raises(InvalidRequest, match="dtype BATCH"):
            await client.commit_file("k", 10, np.zeros(1, "V77"))


@pytest.mark.parametrize("coordinator_ids", [[], [0], [0, 1, 2]])
async def test_coordinators_are_told_of_each_batch_or_of_none(coordinator_ids: list[int]) -> None:
    async with scripted() as cluster, client_of(cluster) as client:
        cluster.add_topic(TOPIC, "t", 4)
        with pytest.raises(InvalidRequest, match="one for each batch"):
            await client.commit_file("k", 200, batches(0, 1), coordinator_ids=coordinator_ids)
        assert not cluster.commits


async def test_a_leader_that_moved_is_found_again() -> None:
    async with scripted() as cluster, client_of(cluster) as client:
        cluster.add_topic(TOPIC, "t", 4)
        assert (await client.commit_file("a", 400, batches(0, 1, 2, 3))).is_ok
        cluster.leaders = dict.fromkeys(range(4), 2)
        assert (await client.commit_file("b", 400, batches(0, 1, 2, 3))).base_offsets.tolist() == [1, 1, 1, 1]
        # What was known to be led by node 2 already did not go there twice.
        later = cluster.commits[2:]
        assert [(node, file.batches["partition"].tolist()) for node, file in later] in (
            [(1, [0, 2]), (2, [1, 3]), (2, [0, 2])],
            [(2, [1, 3]), (1, [0, 2]), (2, [0, 2])],
        )


async def test_batches_whose_partition_has_moved_go_to_where_it_is() -> None:
    async with scripted() as cluster, client_of(cluster) as client:
        cluster.add_topic(TOPIC, "t", 4)
        assert (await client.commit_file("a", 400, batches(0, 1, 2, 3))).is_ok
        cluster.topics[TOPIC][1][2] = 1
        cluster.moved.add(PartitionId(TOPIC, 2).key)
        # Also a caller that has remembered where they were has them committed, and the leaders that moved meanwhile are found.
        for key, given in (("b", None), ("c", [0, 2, 3])):
            outcome = await client.commit_file(key, 300, batches(0, 2, 3), coordinator_ids=given, owner_ids=[0, 1, 2, 3])
            assert outcome.is_ok
            assert outcome.base_offsets.tolist() == [{"b": 1, "c": 2}[key]] * 3
            cluster.leaders = dict.fromkeys(range(4), 1)
        assert sorted(len(file.batches) for _, file in cluster.commits[2:5]) == [1, 1, 2]


async def test_a_commit_has_no_outcome_while_nobody_leads_where_its_partition_has_moved() -> None:
    async with scripted() as cluster, client_of(cluster) as client:
        cluster.add_topic(TOPIC, "t", 2)
        cluster.moved.add(PartitionId(TOPIC, 1).key)
        cluster.nodes[1].told[1] = cluster.nodes[2].told[1] = 1
        outcome = await client.commit_file("k", 200, batches(0, 1), timeout_ms=500)
        assert outcome.error_codes.tolist() == [ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT]
        assert not outcome.is_known
        cluster.topics.clear()
        gone = await client.commit_file("l", 200, batches(0, 1), coordinator_ids=[0, 1], timeout_ms=500)
        assert set(gone.error_codes.tolist()) == {int(ErrorCode.UNKNOWN_TOPIC_ID)}


@pytest.mark.parametrize("trouble", [hang_up, process_and_hang_up], ids=["before", "after"])
async def test_a_commit_takes_effect_once_though_its_connection_is_lost(trouble: Callable[..., None]) -> None:
    async with scripted() as cluster, client_of(cluster) as client:
        cluster.add_topic(TOPIC, "t", 4)
        cluster.nodes[1].trouble.append(once(ApiKey.COMMIT_FILE, trouble))
        outcome = await client.commit_file("k", 400, batches(0, 1, 2, 3, records=5))
        assert outcome.is_ok
        assert outcome.base_offsets.tolist() == [0, 0, 0, 0]
        assert set(cluster.ends.values()) == {5}


async def test_shares_that_meet_again_on_one_node_are_the_same_shares() -> None:
    """The first attempt is processed and its reply lost; the second meets all coordinators on the other node."""
    async with scripted() as cluster, client_of(cluster) as client:
        cluster.add_topic(TOPIC, "t", 4)

        def move(node: ScriptedNode, request: IncomingRequest, respond: Respond) -> None:
            node.answer(request)
            cluster.leaders = dict.fromkeys(range(4), 2)
            respond(None)

        cluster.nodes[1].trouble.append(once(ApiKey.COMMIT_FILE, move))
        outcome = await client.commit_file("k", 400, batches(0, 1, 2, 3))
        assert outcome.is_ok
        assert set(cluster.ends.values()) == {1}


async def test_a_dead_leader_does_not_hold_up_others() -> None:
    async with scripted() as cluster, client_of(cluster) as client:
        cluster.add_topic(TOPIC, "t", 4)
        assert (await client.commit_file("a", 400, batches(0, 1, 2, 3))).is_ok
        await cluster.nodes[1].server.stop(0)
        stuck = asyncio.ensure_future(client.commit_file("b", 200, batches(0, 1)))
        for number in range(5):
            assert (await client.commit_file(f"c{number}", 200, batches(1, 3))).is_ok
        assert not stuck.done()
        cluster.leaders = dict.fromkeys(range(4), 2)
        assert (await stuck).is_ok
        assert await client.admin.list_topics() == await client.admin.list_topics()


async def test_a_node_that_accepts_and_never_answers_is_left_at_the_deadline_of_the_attempt() -> None:
    async with scripted() as cluster, client_of(cluster, request_timeout_ms=1_000) as client:
        cluster.add_topic(TOPIC, "t", 4)

        def swallow(_node: ScriptedNode, request: IncomingRequest, _respond: Respond) -> bool:
            if request.api_key == ApiKey.COMMIT_FILE:
                cluster.leaders = dict.fromkeys(range(4), 2)
            return True

        assert (await client.commit_file("a", 400, batches(0, 1, 2, 3))).is_ok
        cluster.nodes[1].trouble.append(swallow)
        assert (await client.commit_file("b", 400, batches(0, 1, 2, 3))).is_ok


async def test_bootstrap_needs_one_node_that_answers() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening: refuses
        dead = f"127.0.0.1:{taken.getsockname()[1]}"
        async with scripted() as cluster, DisklessClient([dead, cluster.addresses[1]]) as client:
            nodes = await client.admin.nodes()
            assert nodes == tuple(ServiceNode(i, "127.0.0.1", cluster.nodes[i].port) for i in (1, 2))
        async with DisklessClient(dead, api_timeout_ms=1_000, retry=RetryPolicy(backoff_ms=1)) as client:
            with pytest.raises(Unavailable, match="no node answers MetadataRequest: .*" + dead):
                await client.admin.nodes()
            outcome = await client.commit_file("k", 100, batches(0))
            assert outcome.error_codes.tolist() == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
            with pytest.raises(Unavailable, match="file k, batch 0"):
                outcome.raise_for_errors()


async def test_a_node_that_nobody_leads_through_is_asked_until_the_deadline() -> None:
    """Every node names node 1, which says that it is not the leader."""
    async with scripted() as cluster, client_of(cluster) as client:
        cluster.add_topic(TOPIC, "t", 1)
        cluster.leaders[0] = 2
        for node in cluster.nodes.values():
            node.told[0] = 1
        [answer] = await client.list_offsets([(PartitionId(TOPIC, 0), LATEST)], timeout_ms=2_000)
        assert answer.error is ErrorCode.NOT_COORDINATOR
        assert cluster.nodes[1].count(ApiKey.LIST_OFFSETS) > 3
        outcome = await client.commit_file("k", 100, batches(0), timeout_ms=2_000)
        # After NOT_COORDINATOR a commit may be in the log.
        assert outcome.error_codes.tolist() == [ErrorCode.REQUEST_TIMED_OUT]
        assert not outcome.is_known
        with pytest.raises(TimedOut, match="repeat it unchanged"):
            outcome.raise_for_errors()


async def test_a_node_that_tells_a_stale_leader_is_not_the_only_one_asked() -> None:
    async with scripted() as cluster, client_of(cluster) as client:
        cluster.add_topic(TOPIC, "t", 1)
        cluster.leaders[0] = 2
        cluster.nodes[1].told[0] = 1
        assert (await client.commit_file("k", 100, batches(0))).is_ok


async def test_no_leader_is_known_as_definitely_not_committed() -> None:
    async with scripted() as cluster, client_of(cluster) as client:
        cluster.add_topic(TOPIC, "t", 2)
        for node in cluster.nodes.values():
            node.told[0] = -1
        outcome = await client.commit_file("k", 200, batches(0, 1), timeout_ms=2_000)
        assert outcome.error_codes.tolist() == [ErrorCode.COORDINATOR_NOT_AVAILABLE, 0]
        assert outcome.is_known
        assert outcome.batches[0].message == "no leader now"


async def test_nothing_of_a_file_with_an_unknown_partition_is_committed_until_it_exists() -> None:
    async with scripted() as cluster, client_of(cluster) as client:
        cluster.add_topic(TOPIC, "t", 1)
        outcome = await client.commit_file("k", 300, [*batches(0, 1), *batches(0, topic_id=OTHER)])
        assert outcome.error_codes.tolist() == [15, 3, 100]
        assert "has no partition 1; it has 1" in outcome.batches[1].message
        assert not cluster.commits
        waiting = asyncio.ensure_future(client.commit_file("k", 200, batches(0, 1), wait_for_creation=True))
        cluster.add_topic(TOPIC, "t", 2)
        assert (await waiting).base_offsets.tolist() == [0, 0]


async def test_a_topic_deleted_behind_the_clients_back_is_unknown() -> None:
    async with scripted() as cluster, client_of(cluster) as client:
        cluster.add_topic(TOPIC, "t", 1)
        assert (await client.commit_file("a", 100, batches(0))).is_ok
        del cluster.topics[TOPIC]
        outcome = await client.commit_file("b", 100, batches(0))
        assert outcome.error_codes.tolist() == [100]
        [answer] = await client.list_offsets([(PartitionId(TOPIC, 0), LATEST)])
        with pytest.raises(NotFound):
            answer.raise_for_error()


async def test_a_node_that_lags_behind_does_not_make_topics_or_partitions_unknown() -> None:
    """Only the directory's leader, node 1, knows that the topic exists, and later that it has grown."""
    async with scripted() as cluster, DisklessClient([f"127.0.0.1:{cluster.nodes[2].port}"]) as client:
        cluster.add_topic(TOPIC, "t", 2)
        known: list[int] = []

        def lag(node: ScriptedNode, request: IncomingRequest, respond: Respond) -> bool:
            if request.api_key != ApiKey.DESCRIBE_TOPICS:
                return False
            now, cluster.topics = cluster.topics, {}
            for partitions in known:
                cluster.add_topic(TOPIC, "t", partitions)
            respond(node.answer(request))
            cluster.topics = now
            return True

        cluster.nodes[2].trouble.append(lag)
        assert (await client.commit_file("a", 200, batches(0, 1))).is_ok
        known.append(2)
        cluster.add_topic(TOPIC, "t", 3)
        assert (await client.commit_file("b", 300, batches(0, 1, 2))).is_ok
        cluster.nodes[1].trouble.append(once(ApiKey.DESCRIBE_TOPICS, hang_up))
        del cluster.topics[TOPIC]
        known.clear()
        with pytest.raises(NotFound):
            await client.describe_topic(TOPIC)


async def test_offsets_of_many_coordinators_come_in_the_order_asked() -> None:
    async with scripted(nodes=3, coordinators=5) as cluster, client_of(cluster) as client:
        cluster.add_topic(TOPIC, "t", 10)
        cluster.add_topic(OTHER, "o", 1)
        partitions = [PartitionId(TOPIC, i) for i in (9, 1, 1, 4)] + [PartitionId(OTHER, 0)] + [PartitionId(TOPIC, i) for i in (0, 9, 7)]
        for partition in partitions:
            cluster.ends[partition.key] = partition.partition * 7 + partition.topic_id[0]
        answers = await client.list_offsets([(partition, LATEST) for partition in partitions])
        assert [answer.offset for answer in answers] == [cluster.ends[partition.key] for partition in partitions]
        assert [node.count(ApiKey.LIST_OFFSETS) for node in cluster.nodes.values()] == [1, 1, 1]


async def test_operations_at_the_same_time_share_discovery() -> None:
    async with scripted() as cluster, client_of(cluster) as client:
        cluster.add_topic(TOPIC, "t", 4)
        outcomes = await asyncio.gather(*(client.commit_file(f"k{i}", 400, batches(0, 1, 2, 3)) for i in range(50)))
        assert sorted(int(outcome.base_offsets[0]) for outcome in outcomes) == list(range(50))
        for api in (ApiKey.DESCRIBE_TOPICS, ApiKey.FIND_COORDINATOR, ApiKey.METADATA):
            assert sum(node.count(api) for node in cluster.nodes.values()) == 1


async def test_a_remark_on_a_creation_reaches_the_caller() -> None:
    async with scripted() as cluster, client_of(cluster) as client:
        assert (await client.admin.create_topic("t", 3)).note == ""
        cluster.remark = "the new partitions live on 1 of 4 coordinators"
        assert (await client.admin.create_topic("u", 3)).note == cluster.remark


async def test_creating_is_repeated_with_the_same_id() -> None:
    async with scripted() as cluster, client_of(cluster) as client:
        cluster.nodes[1].trouble.append(once(ApiKey.CREATE_PARTITIONS, process_and_hang_up))
        topic = await client.admin.create_topic("t", 3)
        assert list(cluster.topics) == [topic.topic_id]
        with pytest.raises(AlreadyExists):
            await client.admin.create_topic("t", 3)
        assert (await client.describe_topic("t")).topic_id == topic.topic_id
        with pytest.raises(NotFound, match="topic nowhere does not exist"):
            await client.describe_topic("nowhere")


async def test_files_are_described_by_all_coordinators() -> None:
    async with scripted() as cluster, client_of(cluster) as client:
        cluster.add_topic(TOPIC, "t", 4)
        await client.commit_file("k", 100, batches(3))
        found = await client.admin.describe_files(["none", "k"])
        assert [(one.object_key, one.error, one.has_live_batches) for one in found] == [
            ("none", ErrorCode.RESOURCE_NOT_FOUND, False),
            ("k", ErrorCode.NONE, True),
        ]

        def refuse(_node: ScriptedNode, request: IncomingRequest, respond: Respond) -> bool:
            if request.api_key != ApiKey.DESCRIBE_FILES:
                return False
            respond(None)
            return True

        cluster.nodes[1].trouble.append(refuse)
        found = await client.admin.describe_files(["none", "k"], timeout_ms=2_000)
        # As long as one coordinator has not answered, nobody may call a file unknown, or say that nothing of it is live.
        assert [one.error for one in found] == [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE]
        cluster.emptied.add("k")
        found = await client.admin.describe_files(["none", "k"], timeout_ms=2_000)
        assert [one.error for one in found] == [ErrorCode.REQUEST_TIMED_OUT] * 2
        cluster.nodes[1].trouble.remove(refuse)
        (one,) = await client.admin.describe_files(["k"])
        assert (one.error, one.has_live_batches) == (ErrorCode.NONE, False)


async def test_files_are_fenced_at_the_leader_of_a_coordinator_also_when_it_moves_or_hangs_up() -> None:
    async with scripted() as cluster, client_of(cluster) as client:
        cluster.add_topic(TOPIC, "t", 4)
        await client.commit_file("k", 100, batches(3))
        told = await client.fence_files(3, ["none", "k"], [7, 8], only_tell=True)
        assert [(one.object_key, one.error, one.standing) for one in told] == [
            ("none", ErrorCode.NONE, FileStanding.UNKNOWN),
            ("k", ErrorCode.NONE, FileStanding.LIVE),
        ]
        for node in cluster.nodes.values():
            node.trouble.append(once(ApiKey.FENCE_FILES, process_and_hang_up))
        cluster.leaders[3] = 1 if cluster.leaders[3] != 1 else 2
        fenced = await client.fence_files(3, ["none", "k"], [7, 8])
        assert [one.standing for one in fenced] == [FileStanding.FENCED, FileStanding.LIVE]
        assert cluster.fenced == {("none", 3)}


async def test_a_node_that_lost_a_coordinator_cannot_call_its_files_unknown() -> None:
    async with scripted() as cluster, client_of(cluster) as client:
        cluster.add_topic(TOPIC, "t", 4)
        cluster.leaders.update(dict.fromkeys(cluster.leaders, 1))
        await client.commit_file("k", 100, batches(3))
        assert [one.error for one in await client.admin.describe_files(["k"])] == [ErrorCode.NONE]
        # The client has been told that node 1 leads everything, and node 1 answers for what it leads now.
        cluster.leaders[3] = 2
        (one,) = await client.admin.describe_files(["k"])
        assert (one.error, one.has_live_batches) == (ErrorCode.NONE, True)


async def test_a_leadership_that_began_during_the_question_does_not_vouch_for_its_answer() -> None:
    async with scripted() as cluster, client_of(cluster) as client:
        cluster.add_topic(TOPIC, "t", 4)
        cluster.leaders.update(dict.fromkeys(cluster.leaders, 1))

        def lead_again(_node: ScriptedNode, request: IncomingRequest, _respond: Respond) -> bool:
            if request.api_key == ApiKey.DESCRIBE_FILES and not cluster.epochs:
                cluster.epochs[3] = 2
            return False

        cluster.nodes[1].trouble.append(lead_again)
        assert [one.error for one in await client.admin.describe_files(["none"])] == [ErrorCode.RESOURCE_NOT_FOUND]
        assert cluster.nodes[1].count(ApiKey.DESCRIBE_FILES) == 2


async def test_nodes_that_know_of_no_coordinator_yet_are_asked_again() -> None:
    async with scripted() as cluster, client_of(cluster) as client:
        cluster.add_topic(TOPIC, "t", 4)
        leaders = dict(cluster.leaders)
        cluster.leaders.clear()
        with pytest.raises(Unavailable):
            await client.admin.describe_files(["k"], timeout_ms=1_000)
        asked = asyncio.create_task(client.admin.describe_files(["k"]))
        before = sum(node.count(ApiKey.DESCRIBE_COORDINATORS) for node in cluster.nodes.values())
        while sum(node.count(ApiKey.DESCRIBE_COORDINATORS) for node in cluster.nodes.values()) == before:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        cluster.leaders.update(leaders)
        assert [one.error for one in await asked] == [ErrorCode.RESOURCE_NOT_FOUND]


async def test_one_node_can_be_spoken_to_without_retries() -> None:
    async with scripted() as cluster, client_of(cluster) as client:
        cluster.add_topic(TOPIC, "t", 2)
        rows = np.zeros(2, BATCH)
        rows["topic_id"], rows["partition"], rows["magic"] = TOPIC, [0, 1], 2
        node = client.admin.node("127.0.0.1", cluster.nodes[1].port)
        body = await node.request(ApiKey.COMMIT_FILE, 0, encode_commit_file(CommitFileBody("k", 1, 0, [0, 1], rows)))
        assert decode_commit_response(body).results["error_code"].tolist() == [0, 16]
        assert len(cluster.commits) == 1


@pytest.mark.parametrize("text", ["", "host", "host:", ":1", "host:0", "host:65536", "host:x", "a:1,b"])
def test_servers_must_be_host_and_port(text: str) -> None:
    with pytest.raises(ValueError, match="host:port"):
        parse_servers(text)


def test_servers_are_parsed() -> None:
    assert parse_servers("a:1, [::1]:2,a:1") == [("a", 1), ("::1", 2)]


async def test_the_schema_level_is_asked_and_raised_at_the_leader_of_the_directory() -> None:
    async with scripted() as cluster, client_of(cluster) as client:
        cluster.nodes[1].told[0] = 2  # it is not: asked again
        found = await client.admin.schema_level()
        assert (found.level, [(node.node_id, node.schema_level_max) for node in found.nodes]) == (1, [(1, LEVEL_LATEST), (2, LEVEL_LATEST)])
        cluster.nodes[1].told.clear()
        cluster.register((7, 1))
        with pytest.raises(InvalidRequest, match="node 7 supports levels up to 1"):
            await client.admin.raise_schema_level(LEVEL_LATEST)
        assert (await client.admin.schema_level()).level == 1
        assert (await client.admin.raise_schema_level(LEVEL_LATEST, gone_node_ids=[7])).level == LEVEL_LATEST
        assert (await client.admin.raise_schema_level(1)).level == LEVEL_LATEST
        with pytest.raises(InvalidRequest, match="is not known to this version"):
            await client.admin.raise_schema_level(LEVEL_LATEST + 1)


async def test_a_level_that_nobody_can_raise_now_was_not_raised() -> None:
    async with scripted() as cluster, client_of(cluster) as client:
        cluster.leaders[0] = -1
        with pytest.raises(Unavailable):
            await client.admin.raise_schema_level(LEVEL_LATEST, timeout_ms=1_000)
        assert cluster.directory.schema_level == 1


@pytest.mark.parametrize("has_leader", [True, False])
async def test_batches_are_found_on_another_node_while_the_leader_fails_or_is_missing(has_leader: bool) -> None:
    async with scripted(nodes=3, coordinators=1) as cluster, client_of(cluster) as client:
        cluster.add_topic(TOPIC, "t", 1)
        failing, other, _ = cluster.nodes.values()
        cluster.leaders[0] = failing.node_id if has_leader else -1
        failing.has_failed = other.has_failed = True
        [found] = await client.find_batches([FetchFrom(PartitionId(TOPIC, 0), 0)])
        assert found.refusal.code is ErrorCode.NONE
        # Nobody was asked twice, and the leader first.
        assert failing.count(ApiKey.FIND_BATCHES) == 1 if has_leader else failing.count(ApiKey.FIND_BATCHES) <= 1
        assert other.count(ApiKey.FIND_BATCHES) <= 1


async def test_a_topic_is_described_with_the_ends_of_logs_that_the_node_which_is_asked_does_not_follow() -> None:
    async with scripted(nodes=3, coordinators=3) as cluster, client_of(cluster) as client:
        cluster.add_topic(TOPIC, "t", 3)
        cluster.ends = {PartitionId(TOPIC, partition).key: 10 + partition for partition in range(3)}
        described = await client.describe_topic("t")
        assert {one.leader_id for one in described.partitions} == set(cluster.nodes)
        assert [(one.log_start_offset, one.high_watermark) for one in described.partitions] == [(0, 10), (0, 11), (0, 12)]


async def test_the_standby_is_asked_before_nodes_that_do_not_follow() -> None:
    async with scripted(nodes=9, coordinators=1) as cluster, client_of(cluster) as client:
        cluster.add_topic(TOPIC, "t", 1)
        failing = cluster.nodes[cluster.leaders[0]]
        standby = next(node for node in reversed(cluster.nodes.values()) if node is not failing)
        cluster.standbys[0] = (standby.node_id,)
        failing.has_failed = True
        [found] = await client.find_batches([FetchFrom(PartitionId(TOPIC, 0), 0)])
        assert found.refusal.code is ErrorCode.NONE
        assert {node_id: node.count(ApiKey.FIND_BATCHES) for node_id, node in cluster.nodes.items() if node.count(ApiKey.FIND_BATCHES)} == {
            failing.node_id: 1,
            standby.node_id: 1,
        }


async def test_an_offset_outside_the_log_is_refused_with_the_ends_of_the_log() -> None:
    async with scripted(nodes=1, coordinators=1) as cluster, client_of(cluster) as client:
        cluster.add_topic(TOPIC, "t", 1)
        partition = PartitionId(TOPIC, 0)
        cluster.ends[partition.key] = 25
        [found] = await client.find_batches([FetchFrom(partition, 99_999)])
        assert found.refusal.code is ErrorCode.OFFSET_OUT_OF_RANGE
        assert "outside the log (log start offset 0, high watermark 25)" in found.refusal.message


async def test_batches_are_found_by_the_leader_while_it_serves() -> None:
    async with scripted(nodes=3, coordinators=1) as cluster, client_of(cluster) as client:
        cluster.add_topic(TOPIC, "t", 1)
        for _ in range(3):
            await client.find_batches([FetchFrom(PartitionId(TOPIC, 0), 0)])
        counts = {node_id: node.count(ApiKey.FIND_BATCHES) for node_id, node in cluster.nodes.items()}
        assert counts == {node_id: 3 * (node_id == cluster.leaders[0]) for node_id in cluster.nodes}


async def test_what_is_under_way_when_a_client_is_closed_ends_in_one_kind_of_error_and_so_does_what_comes_later() -> None:
    left = {ApiKey.LIST_OFFSETS, ApiKey.COMMIT_FILE, ApiKey.CREATE_PARTITIONS, ApiKey.DESCRIBE_GATEWAYS}
    unanswered, all_came = frozenset(left), asyncio.Event()

    def swallow(_node: ScriptedNode, request: IncomingRequest, _respond: Respond) -> bool:
        left.discard(ApiKey(request.api_key))
        if not left:
            all_came.set()
        return request.api_key in unanswered

    async with scripted() as cluster:
        cluster.add_topic(TOPIC, "t", 4)
        for node in cluster.nodes.values():
            node.trouble.append(swallow)
        client = client_of(cluster, api_timeout_ms=60_000, request_timeout_ms=60_000)
        works = (
            client.list_offsets([(PartitionId(TOPIC, 0), LATEST)]),
            client.commit_file("k", 100, batches(0)),
            client.admin.create_topic("new", 1),
            client.admin.describe_gateways(),
        )
        under_way = [asyncio.create_task(work) for work in works]
        await all_came.wait()
        await client.close()
        async with asyncio.timeout(30):
            ends = await asyncio.gather(*under_way, return_exceptions=True)
        assert [type(end) for end in ends] == [ClientClosed] * 4
    later: tuple[Callable[[], Awaitable[object]], ...] = (
        client.describe_topics,
        client.admin.nodes,
        lambda: client.list_offsets([]),
        lambda: client.admin.delete_topic("orders"),
        lambda: anext(client.admin.list_files()),
    )
    for operation in later:
        with pytest.raises(ClientClosed, match="is closed"):
            await operation()


async def test_a_client_that_never_found_a_node_is_closed_alike() -> None:
    client = DisklessClient("127.0.0.1:1", api_timeout_ms=60_000)
    under_way = asyncio.create_task(client.describe_topics())
    await asyncio.sleep(0)
    await client.close()
    async with asyncio.timeout(60):
        with pytest.raises(ClientClosed):
            await under_way


async def test_values_of_wrong_types_are_named_and_nothing_is_changed() -> None:
    async with scripted() as cluster, client_of(cluster) as client:
        cluster.add_topic(TOPIC, "t", 4)
        partition = PartitionId(TOPIC, 0)
        wrong: tuple[tuple[Callable[[], Awaitable[object]], str], ...] = (
            (lambda: client.list_offsets([(partition, 1.5)]), "ListOffsetsPartition.timestamp is 1.5 of type float; wanted: int"),
            (lambda: client.find_batches([FetchFrom(partition, "0")]), "FindBatchesPartition.offset is '0' of type str; wanted: int"),
            (lambda: client.list_offsets([(PartitionId("t", 0), 0)]), "topic_id is 't' of type str; wanted: bytes, 16 of them"),
            (lambda: client.list_offsets([(PartitionId(TOPIC, None), 0)]), "partition is None of type NoneType; wanted: int"),
            (lambda: client.admin.create_topic(b"new", 1), "CreatablePartitions.name is b'new' of type bytes; wanted: str"),
            (lambda: client.admin.create_topic("new", "1"), "CreatablePartitions.num_partitions is '1' of type str; wanted: int"),
        )
        for operation, text in wrong:
            with pytest.raises(TypeError, match=re.escape(text)):
                await operation()
        assert [name for name, _ in cluster.topics.values()] == ["t"]


async def test_a_poll_ends_when_a_node_has_served_some_partitions_of_it() -> None:
    async with scripted(nodes=1) as cluster, client_of(cluster) as client:
        cluster.add_topic(TOPIC, "t", 2)
        fetches = [FetchFrom(PartitionId(TOPIC, index), 0) for index in range(2)]
        [node] = cluster.nodes.values()

        def refuse_one(node: ScriptedNode, request: IncomingRequest, respond: Respond) -> bool:
            if request.api_key != ApiKey.FIND_BATCHES:
                return False
            topics = decode_find_batches_response(node.answer(request)).topics
            topics[0][1][-1] = topics[0][1][-1]._replace(error_code=int(ErrorCode.NOT_COORDINATOR))
            respond(encode_find_batches_response(topics))
            return True

        node.trouble.append(refuse_one)
        found = await client.find_batches(fetches, max_wait_ms=60_000)
        assert [one.error for one in found] == [ErrorCode.NONE, ErrorCode.NOT_COORDINATOR]
        assert node.count(ApiKey.FIND_BATCHES) == 1
        found = await client.find_batches(fetches, timeout_ms=300)
        assert node.count(ApiKey.FIND_BATCHES) > 2
        assert [one.error for one in found] == [ErrorCode.NONE, ErrorCode.NOT_COORDINATOR]


async def test_an_admin_shares_the_connections_of_a_client_or_has_its_own() -> None:
    async with scripted() as cluster, client_of(cluster) as client, DisklessAdmin(cluster.addresses) as admin:
        created = await client.admin.create_topic("shared", 2)
        assert len((await admin.describe_topic("shared")).partitions) == 2
        assert (await client.describe_topic("shared")).topic_id == created.topic_id
        await client.close()
        with pytest.raises(ClientClosed):
            await client.admin.list_topics()
        assert (await admin.describe_topic("shared")).topic_id == created.topic_id
