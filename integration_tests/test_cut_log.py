"""The end of the metadata topic is lost by a real broker: a node does not lead on a log that is too short for its state.

When other entries have taken the offsets, it keeps its state as evidence and serves what the log has now. That is an unclean leader
election, as a broker of one goes through it: its folder of the partition is put back to an earlier moment.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from cli.dev.kafka import KafkaCluster
from integration_tests.service import UNDISTURBED, Service
from integration_tests.waiting import WAIT_S, wait_until
from integration_tests.wire import OK, Batch, connected, new_key
from records.levels import LEVEL_LATEST


def grow(bootstrap: str, topic: str, count: int) -> None:
    """Append entries that count for nobody."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for _ in range(count):
        producer.produce(topic, b"?", None, 0)
    assert producer.flush(WAIT_S) == 0


@pytest.mark.parametrize("grown", [pytest.param(0, id="shorter", marks=pytest.mark.long), pytest.param(40, id="longer")])
async def test_a_running_node_compares_its_state_with_a_log_whose_end_was_lost(
    kafka_cluster: Callable[..., KafkaCluster], data_folder: Path, grown: int
) -> None:
    kafka = kafka_cluster()
    service = Service(kafka.bootstrap, data_folder, partitions=1, properties=UNDISTURBED)
    folder, kept = kafka.node(1).data_folder / f"{service.topic}-0", data_folder / "kept"
    try:
        node = service.start(1).nodes[1]
        async with connected(node.address) as wire:
            topic = await wire.new_topic()
            assert [(one.error, one.base) for one in await wire.commit(Batch(topic, count=3))] == [(OK, 0)]
        kafka.kill(1)
        shutil.copytree(folder, kept)
        kafka.restart(1)
        key = new_key()
        async with connected(node.address) as wire:
            assert [(one.error, one.base) for one in await wire.commit(Batch(topic, count=4), key=key)] == [(OK, 3)]
            # A strict read is answered by an entry behind the commit; what was read back of both is written by and by.
            assert await wire.ends(topic) == (0, 7)
        # Nothing is left to be written: what is read must tell, not what becomes of the next entry.
        wait_until(lambda: node.metric("schema_level") == LEVEL_LATEST, "the schema level to rise")
        end = node.metric("log_end_offset", partition="0")
        wait_until(lambda: node.metric("state_applied_offset", partition="0") >= end, "the commit to be written")
        # A leader applies its own entries when they are acknowledged. Where they were not read back yet, a log that ends before them is
        # met by its next entry alone.
        wait_until(lambda: node.metric("read_entries_total") >= end, "the entries to be read back")
        node.pause()
        kafka.kill(1)
        shutil.rmtree(folder)
        shutil.copytree(kept, folder)
        kafka.restart(1)
        grow(kafka.bootstrap, service.topic, grown)
        node.resume()
        wait_until(lambda: node.metric("replica_failures_total", partition="0") >= 1, "the node to notice")
        if not grown:
            refused = "Acknowledged data is missing from the log"
            wait_until(lambda: refused in str(node.readiness()[1].get("failed")), "the refusal while it runs")
            node.terminate()
            node.start()
            wait_until(lambda: refused in str(node.readiness()[1].get("failed")), "the same refusal after a restart")
            node.terminate()
            shutil.rmtree(node.data_folder)  # the loss is accepted
            node.start()
        wait_until(service.is_shared, "leadership on the log that is left")
        async with connected(node.address) as wire:
            assert await wire.ends(topic) == (0, 3)
            assert [(one.error, one.base) for one in await wire.commit(Batch(topic, count=4), key=key)] == [(OK, 3)]
        assert not grown or "is not the one the state database has applied" in node.log_text()
    finally:
        service.stop()
