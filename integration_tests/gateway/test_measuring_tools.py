"""Kafka's tools that measure, verify and move offsets, and kcat, use diskless topics through two gateways."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from click.testing import CliRunner

from cli.dev.kafka import BrokerRuntime
from cli.main import root
from integration_tests.gateway.world import World, records_of, tool

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
TOOLS = "org.apache.kafka.tools"
GROUPS = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
RECORDS = 3000
PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])


@pytest.fixture(scope="module")
def world(broker_runtime: BrokerRuntime, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("measuring"), broker_runtime) as made:
        made.start(1001, 1002, gateway_create_diskless="all")
        yield made


@pytest.fixture(scope="module")
def at(world: World) -> Sequence[str]:
    """The option of all tools that names the gateways."""
    return ("--bootstrap-server", ",".join(one.address for one in world.gateways.values()))


@pytest.fixture
def topic(world: World, unique_name: Callable[[str], str]) -> str:
    name = unique_name("topic")
    world.create(world.gateways[1001], name, 3, is_diskless=True)
    return name


def offsets(at: Sequence[str], topic: str, at_time: int | str) -> dict[int, int]:
    """What kafka-get-offsets says of a time."""
    lines = tool(f"{TOOLS}.GetOffsetShell", *at, "--topic", topic, "--time", str(at_time)).splitlines()
    rows = [line.rsplit(":", 2) for line in lines]
    assert {row[0] for row in rows} <= {topic}
    return {int(row[1]): int(row[2]) for row in rows if row[2]}


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def kcat(*words: str, told: bytes = b"") -> list[str]:
    done = subprocess.run(["kcat", *words], input=told, capture_output=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return records_of(done.stdout.decode())


@pytest.mark.parametrize("batch", ["batch.size=16384", "batch.size=1000000,linger.ms=50"], ids=["defaults", "large"])
def test_performance_tools_write_and_read_every_record(at: Sequence[str], topic: str, batch: str) -> None:
    counted = ("--topic", topic, "--num-records", str(RECORDS))
    properties = [word for one in batch.split(",") for word in ("--command-property", one)]
    said = tool(f"{TOOLS}.ProducerPerformance", *at, *counted, "--record-size", "1000", "--throughput", "-1", *properties)
    assert f"{RECORDS} records sent" in said
    assert sum(offsets(at, topic, -1).values()) == RECORDS
    header, *rows = tool(f"{TOOLS}.ConsumerPerformance", *at, *counted, "--timeout", "60000").splitlines()
    place = [one.strip() for one in header.split(",")].index("data.consumed.in.nMsg")
    assert [int(row.split(",")[place]) for row in rows] == [RECORDS]


@PROTOCOLS
def test_verifiable_programs_agree(at: Sequence[str], topic: str, unique_name: Callable[[str], str], protocol: str) -> None:
    written = lines_of(tool(f"{TOOLS}.VerifiableProducer", *at, "--topic", topic, "--max-messages", str(RECORDS)))
    sent = [one for one in written if one["name"] == "producer_send_success"]
    assert sorted(int(one["value"]) for one in sent) == list(range(RECORDS))
    group = ("--group-id", unique_name("group"), "--group-protocol", protocol, "--reset-policy", "earliest")
    read = lines_of(
        tool(f"{TOOLS}.VerifiableConsumer", *at, "--topic", topic, *group, "--max-messages", str(RECORDS), "--verbose", timeout_s=180)
    )
    assert [one["error"] for one in read if one.get("error")] == []
    records = [one for one in read if one["name"] == "record_data"]
    assert sorted((one["partition"], one["offset"], one["value"]) for one in records) == sorted(
        (one["partition"], one["offset"], one["value"]) for one in sent
    )
    committed = [one for one in read if one["name"] == "offsets_committed"]
    assert committed
    assert all(one["success"] for one in committed)


def test_tools_tell_offsets_and_delete_records(world: World, at: Sequence[str], topic: str) -> None:
    before_ms = int(time.time() * 1000)
    for place in range(3):
        kcat("-P", "-b", at[1], "-t", topic, "-p", str(place), told=b"\n".join(b"%d" % one for one in range(10 + place)))
    ends = {0: 10, 1: 11, 2: 12}
    assert offsets(at, topic, "latest") == offsets(at, topic, -1) == ends
    assert offsets(at, topic, "earliest") == offsets(at, topic, before_ms - 1000) == dict.fromkeys(range(3), 0)
    assert set(offsets(at, topic, "max-timestamp")) == {0, 1, 2}
    assert offsets(at, topic, before_ms + 3_600_000) == {}
    wanted = world.folder / "delete.json"
    partitions = [{"topic": topic, "partition": 0, "offset": 4}, {"topic": topic, "partition": 1, "offset": -1}]
    wanted.write_text(json.dumps({"version": 1, "partitions": partitions}))
    said = tool(f"{TOOLS}.DeleteRecordsCommand", *at, "--offset-json-file", str(wanted))
    assert {int(one[0]): int(one[1]) for one in re.findall(r"partition: \S+-(\d+)\s+low_watermark: (\d+)", said)} == {0: 4, 1: 11}
    assert offsets(at, topic, "earliest") == {0: 4, 1: 11, 2: 0}
    assert offsets(at, topic, "latest") == ends
    assert kcat("-C", "-b", at[1], "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q") == [str(one) for one in range(4, 10)]


def test_groups_are_described_reset_and_deleted(world: World, at: Sequence[str], topic: str, unique_name: Callable[[str], str]) -> None:
    group = unique_name("group")
    told = b"\n".join(b"%d" % one for one in range(90))
    kcat("-P", "-b", at[1], "-t", topic, "-X", "partitioner=random", "-X", "sticky.partitioning.linger.ms=0", told=told)
    between_ms = int(time.time() * 1000) + 1
    reading = ("--topic", topic, "--group", group, "--timeout-ms", "60000")
    assert len(records_of(tool(f"{TOOLS}.consumer.ConsoleConsumer", *at, *reading, "--from-beginning", "--max-messages", "90"))) == 90
    kcat("-P", "-b", at[1], "-t", topic, "-p", "1", told=b"later")
    ends = offsets(at, topic, -1)

    def rows(*words: str) -> list[list[str]]:
        return [line.split() for line in tool(GROUPS, *at, "--group", group, *words).splitlines() if line.startswith(group)]

    described = {int(row[2]): (int(row[3]), int(row[4]), int(row[5])) for row in rows("--describe")}
    assert described == {place: (end - (place == 1), end, int(place == 1)) for place, end in ends.items()}
    lag = ["groups", "lag", group, "--kafka-bootstrap-server", world.kafka.bootstrap, "-o", "jsonl"]
    ours = CliRunner().invoke(root, [*lag, "--bootstrap-server", world.service.addresses[0]], prog_name="diskless")
    assert ours.exit_code == 0, ours.output
    lags = [json.loads(line) for line in ours.stdout.splitlines()]
    assert {one["partition"]: (one["current_offset"], one["log_end_offset"], one["lag"]) for one in lags} == described
    aims = {
        ("--to-earliest",): dict.fromkeys(range(3), 0),
        ("--to-latest",): ends,
        ("--shift-by", "-1"): {place: max(0, end - 1) for place, end in ends.items()},
        ("--to-datetime", time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime(between_ms / 1000)) + f"{between_ms % 1000:03d}Z"): {
            place: end - (place == 1) for place, end in ends.items()
        },
    }
    for aim, wanted in aims.items():
        moved = rows("--reset-offsets", "--topic", topic, *aim, "--execute")
        assert {int(row[2]): int(row[3]) for row in moved} == wanted, aim
    assert records_of(tool(f"{TOOLS}.consumer.ConsoleConsumer", *at, *reading, "--max-messages", "1")) == ["later"]
    assert "successful" in tool(GROUPS, *at, "--group", group, "--delete")


def test_a_grown_topic_is_written_and_read(at: Sequence[str], topic: str, unique_name: Callable[[str], str]) -> None:
    kcat("-P", "-b", at[1], "-t", topic, "-p", "2", told=b"before")
    tool(f"{TOOLS}.TopicCommand", *at, "--alter", "--topic", topic, "--partitions", "7")
    assert "PartitionCount: 7" in tool(f"{TOOLS}.TopicCommand", *at, "--describe", "--topic", topic)
    kcat("-P", "-b", at[1], "-t", topic, "-p", "6", told=b"after")
    assert offsets(at, topic, -1) == {**dict.fromkeys(range(7), 0), 2: 1, 6: 1}
    reading = ("--topic", topic, "--group", unique_name("group"), "--from-beginning", "--max-messages", "2", "--timeout-ms", "60000")
    assert sorted(records_of(tool(f"{TOOLS}.consumer.ConsoleConsumer", *at, *reading))) == ["after", "before"]


def test_kcat_lists_asks_for_times_and_reads_in_a_group(at: Sequence[str], topic: str, unique_name: Callable[[str], str]) -> None:
    before_ms = int(time.time() * 1000) - 1
    kcat("-P", "-b", at[1], "-t", topic, "-p", "0", "-z", "lz4", "-K", ":", "-H", "name=value", told=b"key:one\nkey:two\n")
    [listed] = lines_of("\n".join(kcat("-L", "-J", "-b", at[1], "-t", topic)))
    assert {one["id"] for one in listed["brokers"]} >= {1001, 1002}
    assert [len(one["partitions"]) for one in listed["topics"]] == [3]
    assert kcat("-Q", "-b", at[1], "-t", f"{topic}:0:{before_ms}") == [f"{topic} [0] offset 0"]
    read = kcat("-b", at[1], "-q", "-e", "-X", "auto.offset.reset=earliest", "-f", "%k %s %h\n", "-G", unique_name("group"), topic)
    assert read == ["key one name=value", "key two name=value"]
