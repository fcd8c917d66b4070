"""The command line against a real Kafka and a coordinator process that the command line itself started."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import cast

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

from cli.dev.kafka import Kafka
from cli.dev.ports import lease_ports
from cli.dev.process import ChildProcess, start_child
from cli.main import root
from cli.outcome import Exit
from cli.output import time_text
from coordinator.client.client import DisklessClient
from coordinator.client.records.wal_manifest import manifest_path
from coordinator.core.assignor.plan import Because
from coordinator.kafka.errors import ErrorCode
from integration_tests.waiting import wait_until

PARTITIONS = 2
HERE = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A command that ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> object:
        return json.loads(self.out)

    @property
    def rows(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """One node, its settings file and the environment in which commands find it."""

    folder: Path
    config: Path
    process: ChildProcess
    log: Path
    environment: dict[str, str]

    def run(self, *args: str | Path, stdin: str = "", status: int | None = Exit.OK) -> Done:
        """Run a command in this process, which is quick, and see that it ends with `status` (None: any)."""
        result = CliRunner(env=self.environment).invoke(root, [str(arg) for arg in args], input=stdin, prog_name="diskless")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return _checked(Done(status=result.exit_code, out=result.stdout, err=result.stderr), args, status)

    def run_program(self, *args: str | Path, stdin: str = "", status: int | None = Exit.OK) -> Done:
        """Run a command as a process of its own, as people do."""
        command = [sys.executable, "-m", "cli.program", *map(str, args)]
        ended = subprocess.run(
            command, input=stdin, capture_output=True, text=True, env=self.environment, cwd=HERE, timeout=120, check=False
        )
        return _checked(Done(status=ended.returncode, out=ended.stdout, err=ended.stderr), args, status)


def _checked(done: Done, args: Sequence[str | Path], status: int | None) -> Done:
    assert status is None or done.status == status, f"{args} ended with {done.status}\n{done.out}\n{done.err}"
    return done


@pytest.fixture(scope="module")
def diskless(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A metadata topic made by `init`, and a node started by `coordinator run`."""
    folder = tmp_path_factory.mktemp("cli")
    leases = lease_ports(2)
    port, http_port = (lease.port for lease in leases)
    mark = uuid.uuid4().hex[:8]
    config = folder / "coordinator.properties"
    config.write_text(
        f"node.id=7\nbootstrap.servers={kafka.bootstrap}\nlisteners=PLAINTEXT://127.0.0.1:{port}\n"
        f"http.listener=http://127.0.0.1:{http_port}\ndata.dirs={folder / 'data'}\nobject.store.url=file://{folder / 'objects'}\n"
        f"metadata.topic=__diskless_metadata-{mark}\ngroup.id=diskless-{mark}\ndiskless.metadata.topic.auto.create=false\n"
        f"diskless.metadata.topic.num.partitions={PARTITIONS}\n"
        "diskless.metadata.topic.replication.factor=1\ndiskless.metadata.topic.min.insync.replicas=1\n",
        encoding="utf-8",
    )
    environment = {key: value for key, value in os.environ.items() if not key.startswith("DISKLESS_") or key == "DISKLESS_CACHE_DIR"}
    environment |= {"DISKLESS_BOOTSTRAP_SERVER": f"127.0.0.1:{port}", "PYTHONPATH": str(HERE)}
    created = subprocess.run(
        [sys.executable, "-m", "cli.program", "init", "--config", str(config)], env=environment, capture_output=True, text=True, check=False
    )
    assert created.returncode == 0, created.stderr
    log = folder / "node.log"
    process = start_child(
        [sys.executable, "-m", "cli.program", "coordinator", "run", "--config", str(config)],
        marker=str(config),
        log=log,
        environment=environment,
    )

    def is_ready() -> bool:
        assert process.is_running(), log.read_text(encoding="utf-8")
        with urllib.request.urlopen(f"http://127.0.0.1:{http_port}/ready", timeout=10) as answer:
            return len(json.load(answer)["leading"]) == PARTITIONS

    try:
        wait_until(is_ready, "the node to lead every coordinator", excused=OSError)
        yield Installation(folder=folder, config=config, process=process, log=log, environment=environment)
    finally:
        if process.is_running():
            process.kill()
        for lease in leases:
            lease.close()


def records(topic: str) -> list[dict[str, object]]:
    """Records of three partitions of a topic, with everything a record can have."""
    odd = [["h", "x"], ["h", {"base64": "//4="}], [{"base64": "/v8="}, None]]
    rows: list[tuple[int, dict[str, object]]] = [
        (0, {"timestamp": 1_700_000_000_000, "key": "k0", "value": "v0", "headers": odd}),
        (0, {"timestamp": -1, "key": None, "value": "v1", "headers": []}),
        (1, {"timestamp": 1_700_000_000_002, "key_base64": "AP8=", "value": "ünï\n", "headers": []}),
        (2, {"timestamp": 1_700_000_000_003, "key": "k3", "value": None, "headers": [["n", None]]}),
    ]
    return [{"topic": topic, "partition": partition, "timestamp_type": "CreateTime", **row} for partition, row in rows]


def pack(diskless: Installation, name: str, lines: list[dict[str, object]]) -> Path:
    wal = diskless.folder / name
    diskless.run("files", "pack", "-o", wal, "--compression", "lz4", stdin="\n".join(map(json.dumps, lines)))
    return wal


def topic_named(diskless: Installation, name: str, partitions: int = 3) -> str:
    diskless.run("topics", "create", name, "--partitions", str(partitions))
    return name


def test_records_travel_from_pack_to_fetch(diskless: Installation) -> None:
    topic = topic_named(diskless, "travel")
    wal = pack(diskless, "travel.wal", records(topic))

    committed = diskless.run_program("files", "commit", wal, "--config", diskless.config, "-o", "jsonl")
    again = diskless.run_program("files", "commit", wal, "--config", diskless.config, "-o", "jsonl")

    assert [(row["partition"], row["base_offset"], row["last_offset"]) for row in committed.rows] == [(0, 0, 1), (1, 0, 0), (2, 0, 0)]
    assert again.rows == committed.rows  # a retry is the first answer again, not a second commit
    assert "is there already" in again.err
    assert [row["offset"] for row in diskless.run_program("offsets", "list", topic, "-o", "jsonl").rows] == [2, 1, 1]
    copy = topic_named(diskless, "travel-copy")
    for partition in range(3):
        fetched = diskless.run_program("batches", "find", topic, str(partition), "--fetch", "--config", diskless.config)
        expected = [record for record in records(topic) if record["partition"] == partition]
        assert fetched.rows == [{**record, "offset": offset} for offset, record in enumerate(expected)]
        repacked = pack(diskless, f"travel-{partition}.wal", fetched.rows)
        diskless.run("files", "commit", repacked, "--config", diskless.config, "--topic-map", f"{topic}={copy}")
        assert diskless.run("batches", "find", copy, str(partition), "--fetch", "--config", diskless.config).rows == [
            {**row, "topic": copy} for row in fetched.rows
        ]
    table = diskless.run("batches", "find", topic, "1", "--fetch", "--config", diskless.config, "-o", "table").out.splitlines()
    assert table[1].split() == ["0", "1700000000002", "\\x00\ufffd", "ünï\\n"]


def test_timestamps_too_far_ahead_are_refused_until_the_topic_allows_them(diskless: Installation) -> None:
    topic, ahead_ms = topic_named(diskless, "ahead", 1), time.time_ns() // 1_000_000 + 86_400_000
    line = json.dumps({"topic": topic, "partition": 0, "timestamp": ahead_ms})
    wal = diskless.folder / "ahead.wal"
    said = diskless.run("files", "pack", "-o", wal, stdin=line, status=Exit.FAILURE).err
    assert f"line 1: the timestamp {ahead_ms} is" in said
    diskless.run("files", "pack", "-o", wal, "--timestamp-after-max-ms", "90000000", stdin=line)
    commit = ("files", "commit", wal, "--config", diskless.config, "-o", "jsonl")
    said = diskless.run(*commit, status=Exit.FAILURE).err
    assert f"{topic}-0: the timestamp {ahead_ms} is" in said
    assert not Path(f"{wal}.commit.json").exists()
    diskless.run("topics", "alter", topic, "--config", "message.timestamp.after.max.ms=90000000")
    assert [row["base_offset"] for row in diskless.run(*commit).rows] == [0]


def test_two_commits_of_a_changed_file_at_once_are_one(diskless: Installation) -> None:
    topic = topic_named(diskless, "together", 1)
    wal = pack(diskless, "together.wal", [{"topic": topic, "partition": 0, "value": "old"}])
    diskless.run("files", "commit", wal, "--config", diskless.config)
    for path in (wal, manifest_path(wal)):
        path.unlink()
    pack(diskless, "together.wal", [{"topic": topic, "partition": 0, "value": "new"}])
    with ThreadPoolExecutor(3) as pool:
        commit = ("files", "commit", wal, "--config", diskless.config, "-o", "jsonl")
        ended = [done.rows for done in pool.map(lambda _: diskless.run_program(*commit), range(3))]
    assert ended[1:] == ended[:-1]
    assert [(row["base_offset"], row["last_offset"]) for row in ended[0]] == [(1, 1)]
    assert [row["offset"] for row in diskless.run("offsets", "list", topic, "-o", "jsonl").rows] == [2]


def test_a_second_file_continues_where_the_first_ended_also_under_other_names(diskless: Installation) -> None:
    topic = topic_named(diskless, "continued")
    first = pack(diskless, "first.wal", records("made-up"))
    diskless.run("files", "commit", first, "--config", diskless.config, status=Exit.NOT_FOUND)  # nothing of it is uploaded or committed
    assert not Path(f"{first}.commit.json").exists()
    for expected in (0, 2):
        arguments = ["files", "commit", first, "--config", diskless.config, "--topic-map", f"made-up={topic}", "-o", "json"]
        rows = diskless.run(*arguments, *(["--new-key"] if expected else [])).json
        assert isinstance(rows, list)
        assert rows[0]["base_offset"] == expected
    topic_id = next(row["topic_id"] for row in diskless.run("topics", "list", "-o", "jsonl").rows if row["topic"] == topic)
    found = diskless.run("batches", "find", str(topic_id), "0", "--offset", "1", "--fetch", "--config", diskless.config)
    assert [(row["topic"], row["offset"], row["value"]) for row in found.rows] == [(topic, 1, "v1"), (topic, 2, "v0"), (topic, 3, "v1")]


def test_a_file_of_which_a_batch_is_rejected_prints_every_result_and_fails(diskless: Installation) -> None:
    topic = topic_named(diskless, "sequences", 2)
    producer = {"producer_id": 5, "producer_epoch": 0}
    first = [{"topic": topic, "partition": 0, "value": "a", **producer, "sequence": 0}]
    diskless.run("files", "commit", pack(diskless, "sequence-0.wal", first), "--config", diskless.config)
    second = [
        {"topic": topic, "partition": 0, "value": "c", **producer, "sequence": 2},
        {"topic": topic, "partition": 1, "value": "x"},
    ]
    partial = diskless.run(
        "files", "commit", pack(diskless, "sequence-2.wal", second), "--config", diskless.config, "-o", "jsonl", status=Exit.FAILURE
    )
    assert [(row["partition"], row["error"], row["base_offset"]) for row in partial.rows] == [
        (0, "OUT_OF_ORDER_SEQUENCE_NUMBER", -1),
        (1, "", 0),
    ]
    assert "1 of 2 batches" in partial.err
    duplicate = diskless.run("files", "commit", pack(diskless, "sequence-0b.wal", first), "--config", diskless.config, "-o", "jsonl")
    assert [(row["duplicate"], row["base_offset"]) for row in duplicate.rows] == [(True, 0)]


def test_files_are_listed_and_described_until_nothing_is_known_of_them(diskless: Installation) -> None:
    topic = topic_named(diskless, "listed", 1)
    wal = pack(diskless, "listed.wal", [{"topic": topic, "partition": 0, "value": "x"}])
    diskless.run("files", "commit", wal, "--config", diskless.config)
    key = json.loads(Path(f"{wal}.commit.json").read_text())["object_key"]
    listed = [row for row in diskless.run("files", "list", "-o", "jsonl").rows if row["object_key"] == key]
    assert [(row["live_batches"], row["size"]) for row in listed] == [(1, wal.stat().st_size)]
    assert len(diskless.run("files", "list", "--max", "1", "-o", "jsonl").rows) == 1
    owner = listed[0]["coordinator"]
    [described] = diskless.run("files", "describe", key, "-o", "jsonl").rows
    assert described["live"] is True
    told = {name: described[name] for name in ("coordinator", "state", "waits_for", "earliest", "owner_ids")}
    assert told == {"coordinator": owner, "state": "live", "waits_for": "the deletion of 1 batches", "earliest": None, "owner_ids": [owner]}
    diskless.run("files", "describe", "wal/unknown", status=Exit.NOT_FOUND)

    # Its last batch goes; the object stays until no commit of the file is possible any more, by the settings of 15 minutes.
    diskless.run("records", "delete", topic, "0", "--before-offset", "1", "--yes")
    wait_until(lambda: has_since(diskless, key, "empty"), "the file to be empty")
    [emptied] = diskless.run("files", "describe", key, "-o", "jsonl").rows
    assert (emptied["live"], emptied["state"]) == (False, "empty")
    assert emptied["waits_for"] == f"the time {emptied['earliest']}"
    created = datetime.fromisoformat(str(listed[0]["created"]))
    assert datetime.fromisoformat(str(emptied["earliest"])) == created + timedelta(minutes=15)
    for state in ("live", "waiting", "deletable", "fenced", "removed", "handed-over"):
        assert key not in keys_in(diskless, state)
    assert state_in_table(diskless, key) == "empty"


def has_since(diskless: Installation, key: str, state: str) -> bool:
    """Whether a file is listed in a state, with the time at which that began."""
    rows = diskless.run("files", "list", "--state", state, "-o", "jsonl").rows
    return any(row["object_key"] == key and row["since"] is not None for row in rows)


def keys_in(diskless: Installation, *states: str) -> list[object]:
    """The keys of the files in some states."""
    options = [text for state in states for text in ("--state", state)]
    return [row["object_key"] for row in diskless.run("files", "list", *options, "-o", "jsonl").rows]


def state_in_table(diskless: Installation, key: str) -> str:
    """What the table says of a file."""
    [line] = [line for line in diskless.run("files", "list").out.splitlines() if line.startswith(key)]
    return line.split()[2]


async def test_fenced_keys_are_listed_when_that_is_asked_for(diskless: Installation) -> None:
    keys = [f"wal/fenced-{uuid.uuid4().hex}" for _ in range(3)]
    now_ms = time.time_ns() // 1_000_000
    async with DisklessClient(diskless.environment["DISKLESS_BOOTSTRAP_SERVER"]) as client:
        fenced = await client.fence_files(1, keys, [now_ms, now_ms, -1])
    assert [one.error for one in fenced] == [ErrorCode.NONE] * 3

    def run(*args: str, status: int = Exit.OK) -> list[dict[str, object]]:
        return diskless.run(*args, "-o", "jsonl", status=status).rows

    listed = {row["object_key"]: row for row in await asyncio.to_thread(run, "files", "list", "--state", "fenced", "--state", "removed")}
    assert {listed[key]["coordinator"] for key in keys} == {1}
    forgotten = time_text(now_ms + 3_600_000)
    assert [listed[key]["until"] for key in keys] == [forgotten, forgotten, None]
    assert not set(keys) & {row["object_key"] for row in await asyncio.to_thread(run, "files", "list")}
    [described] = await asyncio.to_thread(run, "files", "describe", keys[0], status=Exit.NOT_FOUND)
    assert (described["coordinator"], described["state"], described["error"]) == (1, "fenced", "RESOURCE_NOT_FOUND")


def test_records_are_deleted_from_the_front_and_a_dry_run_deletes_nothing(diskless: Installation) -> None:
    topic = topic_named(diskless, "deleted", 1)
    wal = pack(diskless, "deleted.wal", [{"topic": topic, "partition": 0, "value": f"v{n}"} for n in range(5)])
    diskless.run("files", "commit", wal, "--config", diskless.config)

    def start() -> object:
        return diskless.run("offsets", "list", topic, "--time", "earliest", "-o", "jsonl").rows[0]["offset"]

    diskless.run("records", "delete", topic, "0", "--before-offset", "3", "--dry-run")
    diskless.run("records", "delete", topic, "0", "--before-offset", "3", stdin="n\n", status=Exit.FAILURE)
    assert start() == 0
    diskless.run("records", "delete", topic, "0", "--before-offset", "6", "--yes", status=Exit.NOT_FOUND)
    assert diskless.run("records", "delete", topic, "0", "--before-offset", "3", "--yes", "-o", "json").json == {
        "topic": topic,
        "partition": 0,
        "low_watermark": 3,
    }
    assert start() == 3
    fetched = diskless.run("batches", "find", topic, "0", "--fetch", "--config", diskless.config)
    assert [row["value"] for row in fetched.rows] == ["v3", "v4"]
    diskless.run("batches", "find", topic, "0", "--offset", "1", status=Exit.NOT_FOUND)
    diskless.run("records", "delete", topic, "0", "--before-offset", "-1", "--yes")
    assert start() == 5


def test_topics_are_created_once_grow_and_go(diskless: Installation) -> None:
    topic = topic_named(diskless, "life", 2)
    assert diskless.run("topics", "create", topic, status=Exit.FAILURE).err.count("TOPIC_ALREADY_EXISTS") == 1
    diskless.run("topics", "create", topic, "--if-not-exists")
    diskless.run("topics", "alter", topic, "--partitions", "5")
    described = diskless.run("topics", "describe", topic, "-o", "jsonl").rows
    assert [(row["partition"], row["leader"], row["high_watermark"]) for row in described] == [(n, 7, 0) for n in range(5)]
    assert {row["coordinator"] for row in described} <= set(range(PARTITIONS))
    diskless.run("topics", "describe", "nonsense", status=Exit.NOT_FOUND)
    diskless.run("offsets", "list", topic, "--partition", "5", status=Exit.NOT_FOUND)
    diskless.run("topics", "delete", topic, "--dry-run")
    diskless.run("topics", "delete", topic, stdin="n\n", status=Exit.FAILURE)
    diskless.run("topics", "delete", topic, "--yes")
    diskless.run("topics", "delete", topic, "--yes", status=Exit.NOT_FOUND)
    assert topic not in {row["topic"] for row in diskless.run("topics", "list", "-o", "jsonl").rows}


def test_the_log_is_dumped_with_verdicts_and_a_strangers_message_is_void(diskless: Installation, kafka: Kafka) -> None:
    topic = topic_named(diskless, "dumped", 1)
    metadata_topic = next(line for line in diskless.config.read_text().splitlines() if line.startswith("metadata.topic=")).partition("=")[2]
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce(metadata_topic, key=b"stranger", value=b"no entry", partition=PARTITIONS - 1)
    assert producer.flush(30) == 0

    entries = diskless.run("log", "dump", "--config", diskless.config, "-o", "jsonl").rows
    first = {partition: next(entry for entry in entries if entry["partition"] == partition) for partition in range(PARTITIONS)}
    assert {entry["verdict"] for entry in first.values()} == {"claim"}
    types = {record["type"] for entry in entries if entry["verdict"] == "apply" for record in entry["records"]}  # type: ignore[attr-defined]
    assert {"NodeRegistered", "TopicPlaced", "PartitionCreated"} <= types
    placed = [r for entry in entries for r in entry["records"] if r["type"] == "TopicPlaced" and r["name"] == topic]  # type: ignore[attr-defined]
    assert placed
    [stranger] = [entry for entry in entries if entry["verdict"] == "void"]
    assert (stranger["partition"], stranger["epoch"]) == (PARTITIONS - 1, None)
    assert str(stranger["reason"]).startswith("foreign")

    some = diskless.run("log", "dump", "--config", diskless.config, "--partition", "0", "--from", "1", "--max", "2", "-o", "json").json
    assert isinstance(some, list)
    assert [entry["offset"] for entry in some] == [1, 2]
    assert [entry["verdict"] for entry in some] == ["apply", "apply"]
    table = diskless.run("log", "dump", "--bootstrap-server", kafka.bootstrap, "--metadata-topic", metadata_topic, "--partition", "0").out
    assert "LeadershipClaimed(node_id=7" in table
    diskless.run("log", "dump", "--config", diskless.config, "--partition", "9", status=Exit.NOT_FOUND)
    diskless.run("log", "dump", "--config", diskless.config, "--metadata-topic", "nothing-here", status=Exit.NOT_FOUND)


def test_the_log_is_dumped_between_two_times(diskless: Installation) -> None:
    topic_named(diskless, "between", 2)
    dump = ("log", "dump", "--config", diskless.config, "-o", "jsonl")
    entries = diskless.run(*dump).rows
    times = sorted({str(entry["time"]) for entry in entries})
    since, until = times[len(times) // 3], times[2 * len(times) // 3]
    wanted: list[dict[str, object]] = []
    for partition in range(PARTITIONS):
        own = [entry for entry in entries if entry["partition"] == partition]
        first, end = (next((at for at, entry in enumerate(own) if str(entry["time"]) >= bound), len(own)) for bound in (since, until))
        wanted += own[first:end]
    assert wanted
    assert diskless.run(*dump, "--since", since, "--until", until).rows == wanted
    assert diskless.run(*dump, "--since", "2999-01-01").rows == []
    assert diskless.run(*dump, "--until", "1971-01-01").rows == []
    assert diskless.run(*dump, "--since", "1d", "--until", "0s").rows[: len(entries)] == entries


def test_why_a_coordinator_is_where_it_is(diskless: Installation) -> None:
    group = next(line.removeprefix("group.id=") for line in diskless.config.read_text().splitlines() if line.startswith("group.id="))
    kafka = ("--config", diskless.config, "--group", group)
    found = diskless.run("coordinator", "why", *kafka, "-o", "jsonl").rows
    assert [(row["coordinator"], row["assigned"], row["follows"], row["refuses"]) for row in found] == [(0, 7, [], []), (1, 7, [], [])]
    assert {row["why"] for row in found} <= {reason.value for reason in Because}
    assert [row["coordinator"] for row in diskless.run("coordinator", "why", "1", *kafka, "-o", "jsonl").rows] == [1]
    assert "coordinator 9 is not assigned" in diskless.run("coordinator", "why", "9", *kafka, status=Exit.NOT_FOUND).err
    nobody = diskless.run("coordinator", "why", "--config", diskless.config, "--group", "nobody")
    assert "group nobody has no member" in nobody.err + nobody.out


def from_log(diskless: Installation, topic_id: object) -> dict[int, list[dict[str, object]]]:
    """The accepted batches of a topic by partition, as the log has them, each with the key of its object."""
    found: dict[int, list[dict[str, object]]] = {}
    for entry in diskless.run("log", "dump", "--config", diskless.config, "-o", "jsonl").rows:
        for record in cast(list[dict[str, object]], entry["records"]):
            for batch in cast(list[dict[str, object]], record.get("batches", [])):
                if (batch["topic_id"], batch["verdict"]) == (topic_id, "accepted"):
                    found.setdefault(cast(int, batch["partition"]), []).append({**batch, "object_key": record["object_key"]})
    return found


def test_usage_and_files_of_a_topic_are_what_the_log_and_the_store_have(diskless: Installation) -> None:
    retention_ms, now_ms = 10**13, time.time_ns() // 1_000_000
    topics = [topic_named(diskless, name, 2) for name in ("used", "beside")]
    diskless.run("topics", "alter", topics[0], "--config", f"retention.ms={retention_ms}")
    for number in range(4):
        lines = [
            {"topic": topic, "partition": partition, "timestamp": now_ms - number, "value": f"{topic} {partition} {number}"}
            for topic in topics[: 1 + number % 2]
            for partition in range(2)
            for _ in range(1 + number)
        ]
        diskless.run("files", "commit", pack(diskless, f"used-{number}.wal", lines), "--config", diskless.config)
    diskless.run("records", "delete", topics[0], "1", "--before-offset", "3", "--yes")  # whole batches, and no object with them

    [listed] = [
        one for one in cast(list[dict[str, object]], diskless.run("topics", "list", "-o", "json").json) if one["topic"] == topics[0]
    ]
    live = from_log(diskless, listed["topic_id"])
    live[1] = [one for one in live[1] if cast(int, one["base_offset"]) >= 3]
    batches = [one for partition in live.values() for one in partition]
    keys = {str(one["object_key"]) for one in batches}
    size = sum(cast(int, one["byte_size"]) for one in batches)
    [usage] = diskless.run("topics", "usage", topics[0], "-o", "jsonl").rows
    counted = {name: usage[name] for name in ("partitions", "records", "batches", "bytes", "objects", "extents", "due_bytes")}
    records = sum(cast(int, one["record_count"]) for one in batches)
    assert counted == {
        "partitions": 2, "records": records, "batches": len(batches), "bytes": size, "objects": len(keys), "extents": len(batches),
        "due_bytes": 0,
    }  # fmt: skip
    assert usage["next_freed"] == time_text(min(cast(int, one[0]["timestamp_ms"]) for one in live.values()) + retention_ms)
    by_partition = diskless.run("topics", "usage", topics[0], "--by-partition", "-o", "jsonl").rows
    assert [one["bytes"] for one in by_partition] == [sum(cast(int, one["byte_size"]) for one in live[partition]) for partition in range(2)]

    files = diskless.run("topics", "files", topics[0], "-o", "jsonl").rows
    assert {str(one["object_key"]): one["bytes"] for one in files} == {
        key: sum(cast(int, one["byte_size"]) for one in batches if one["object_key"] == key) for key in keys
    }
    for one in batches:  # the bytes in the store are those batches
        stored = (diskless.folder / "objects" / str(one["object_key"])).read_bytes()[cast(int, one["byte_offset"]) :]
        assert int.from_bytes(stored[8:12], "big") + 12 == one["byte_size"]
    diskless.run("topics", "alter", topics[0], "--config", "retention.ms=1")
    [past] = diskless.run("topics", "usage", topics[0], "-o", "jsonl").rows
    assert past["due_bytes"] in (size, 0)  # the leaders may have been faster
    assert past["bytes"] in (size, 0)


def test_producers_are_those_whose_batches_the_log_has(diskless: Installation) -> None:
    topic = topic_named(diskless, "produced", 2)
    for number in range(3):
        lines = [
            {"topic": topic, "partition": partition, "value": "v", "producer_id": 70 + partition, "producer_epoch": 1, "sequence": number}
            for partition in range(2)
        ] + [{"topic": topic, "partition": 0, "value": "without"}]
        diskless.run("files", "commit", pack(diskless, f"produced-{number}.wal", lines), "--config", diskless.config)
    [listed] = [one for one in cast(list[dict[str, object]], diskless.run("topics", "list", "-o", "json").json) if one["topic"] == topic]
    newest: dict[object, tuple[object, ...]] = {}
    for partition, batches in from_log(diskless, listed["topic_id"]).items():
        for one in batches:
            last = cast(int, one["base_sequence"]) + cast(int, one["record_count"]) - 1
            if one["producer_id"] != -1:
                newest[partition, one["producer_id"]] = (one["producer_epoch"], last)
    told = diskless.run("producers", "list", topic, "-o", "jsonl").rows
    assert {(one["partition"], one["producer_id"]): (one["epoch"], one["last_sequence"]) for one in told} == newest
    assert len(newest) == 2
    assert diskless.run("producers", "list", topic, "--partition", "1", "-o", "jsonl").rows == [
        one for one in told if one["partition"] == 1
    ]


def test_the_newest_records_of_a_topic_are_shown_and_followed(diskless: Installation) -> None:
    topic = topic_named(diskless, "tailed", 2)
    lines = [
        {"topic": topic, "partition": partition, "timestamp": 1_700_000_000_000 + 1000 * number, "value": f"{partition} {number}"}
        for number in range(5)
        for partition in range(2)
    ]
    diskless.run("files", "commit", pack(diskless, "tailed.wal", lines), "--config", diskless.config)
    tail = ("records", "tail", topic, "--config", diskless.config)

    def values(*words: str) -> list[object]:
        return sorted(str(row["value"]) for row in diskless.run(*tail, *words).rows)

    assert values("-n", "2") == ["0 3", "0 4", "1 3", "1 4"]
    assert values("-n", "1", "--partition", "1") == ["1 4"]
    assert values("--since", "2023-11-14T22:13:23") == ["0 3", "0 4", "1 3", "1 4"]
    assert values("--since", "2999-01-01") == []
    assert values("-n", "0") == []
    command = [sys.executable, "-m", "cli.program", *map(str, tail), "-n", "1", "--partition", "0", "--follow"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=diskless.environment, cwd=HERE) as following:
        assert following.stdout is not None
        assert json.loads(following.stdout.readline())["value"] == "0 4"
        more = pack(diskless, "tailed-more.wal", [{"topic": topic, "partition": 0, "value": "later"}])
        diskless.run("files", "commit", more, "--config", diskless.config)
        assert json.loads(following.stdout.readline())["value"] == "later"
        # SIGINT is ignored where a shell has started the tests in the background.
        following.send_signal(signal.SIGTERM)
        try:
            assert following.wait(30) == 0
        finally:
            following.kill()


def test_a_running_node_tells_its_settings_and_where_they_are_from(diskless: Installation) -> None:
    url = next(line for line in diskless.config.read_text().splitlines() if line.startswith("http.listener=")).partition("=")[2]
    own = diskless.run("config", "show", "--config", diskless.config, "-o", "jsonl").rows
    told = diskless.run("config", "show", "--running", url, "-o", "jsonl").rows
    assert told == own
    given = {str(one["key"]): one for one in diskless.run("config", "show", "--running", url, "--given", "-o", "jsonl").rows}
    assert given["node.id"]["value"] == "7"
    assert str(diskless.config) in str(given["node.id"]["source"])
    diskless.run("config", "show", "--running", "127.0.0.1:9193", status=Exit.USAGE)
    diskless.run("config", "show", "--running", "http://127.0.0.1:1", status=Exit.UNAVAILABLE)


def test_sql_over_the_state_of_a_running_node(diskless: Installation) -> None:
    topic = topic_named(diskless, "queried", 1)
    wal = pack(diskless, "queried.wal", [{"topic": topic, "partition": 0, "value": f"v{n}"} for n in range(3)])
    diskless.run("files", "commit", wal, "--config", diskless.config)
    described = diskless.run("topics", "describe", topic, "-o", "jsonl").rows[0]
    database = diskless.folder / "data" / f"partition-{described['coordinator']}.db"
    query = f"SELECT partition, base_offset, last_offset, object_key FROM batch('{described['topic_id']}', 0)"
    key = json.loads(Path(f"{wal}.commit.json").read_text())["object_key"]

    wait_until(lambda: diskless.run("db", "sql", database, query, "-o", "jsonl").rows != [], "the commit to reach the database")

    expected = [{"partition": 0, "base_offset": 0, "last_offset": 2, "object_key": key}]
    assert diskless.run("db", "sql", database, query, "-o", "jsonl").rows == expected
    header = diskless.run("db", "dump", database, "-o", "json").json
    assert isinstance(header, dict)
    assert header["metadata_partition"] == described["coordinator"]
    names = {row["name"] for row in diskless.run("db", "dump", database, "--table", "topic", "-o", "jsonl").rows}
    assert topic in names
    diskless.run("db", "sql", database, "SELECT nonsense", status=Exit.USAGE)
    diskless.run("db", "sql", database, "DELETE FROM topic", status=Exit.FAILURE)


def test_coordinators_and_the_doctor_see_a_healthy_node(diskless: Installation) -> None:
    status = diskless.run("coordinator", "status", "-o", "jsonl").rows
    assert [(row["coordinator"], row["leader"], row["state"]) for row in status] == [(n, 7, "leading") for n in range(PARTITIONS)]
    assert [(row["node"], row["reachable"], row["leads"]) for row in diskless.run("coordinator", "list", "-o", "jsonl").rows] == [
        (7, True, list(range(PARTITIONS)))
    ]
    assert len(diskless.run("coordinator", "describe", "1", "-o", "jsonl").rows) == 1
    diskless.run("coordinator", "describe", "99", status=Exit.NOT_FOUND)
    found = diskless.run("doctor", "--config", diskless.config, "-o", "jsonl", status=None).rows
    # How much room the disk of the machine that runs the tests has is not for this test to say.
    assert [
        row for row in found if row["health"] in ("error", "skipped") or (row["health"] == "warning" and row["check"] != "data dirs")
    ] == []


TASK = re.compile(r"^\| [^|]+ \| `diskless ([^`]+)` \| [^|]+ \|$", re.MULTILINE)


def test_every_task_of_the_page_is_done_by_its_command(diskless: Installation, kafka: Kafka) -> None:
    page = (HERE / "docs/tasks.md").read_text(encoding="utf-8")
    tasks = TASK.findall(page)
    assert len(tasks) == 16
    diskless.run("topics", "create", "orders", "--partitions", "2")
    lines = [{"topic": "orders", "partition": 0, "value": "v", "producer_id": 7, "producer_epoch": 0, "sequence": 0}]
    diskless.run("files", "commit", pack(diskless, "orders.wal", lines), "--config", diskless.config)
    url = next(line for line in diskless.config.read_text().splitlines() if line.startswith("http.listener=")).partition("=")[2]
    named = {"DISKLESS_KAFKA_BOOTSTRAP_SERVER": kafka.bootstrap, "DISKLESS_CONFIG": str(diskless.config)}
    assert all(name in page for name in (*named, "DISKLESS_BOOTSTRAP_SERVER"))
    there = replace(diskless, environment=diskless.environment | named)
    for task in tasks:
        done = there.run(*(url if word == "http://localhost:9193" else word for word in shlex.split(task)))
        assert done.out or done.err, task
    described = cast(list[dict[str, object]], diskless.run("topics", "describe", "orders", "-o", "json").json)
    assert [(one["settings"], one["log_start_offset"]) for one in described][:1] == [("retention.ms=86400000", 1)]
    assert len(described) == 4


def test_every_coordinator_has_a_gateway_among_the_brokers(diskless: Installation) -> None:
    rows = diskless.run("gateways", "plan", "-o", "jsonl").rows
    assert rows
    assert sorted({coordinator for row in rows for coordinator in cast(list[int], row["coordinators"])}) == list(range(PARTITIONS))
    assert all((row["leaders"], row["commits_per_file"]) in (([7], 1), ([], 0)) for row in rows)


def test_init_again_changes_nothing_and_says_what_is_wrong(diskless: Installation, kafka: Kafka) -> None:
    assert diskless.run("init", "--config", diskless.config, "-o", "json").json["action"] == "exists"  # type: ignore[index]
    strict = diskless.run(
        "init", "--config", diskless.config, "--replication-factor", "3", "--min-insync-replicas", "2", status=Exit.FAILURE
    )
    assert "min.insync.replicas" in strict.err
    name = f"dry-{uuid.uuid4().hex[:8]}"
    arguments = [
        "init",
        "--bootstrap-server",
        kafka.bootstrap,
        "--metadata-topic",
        name,
        "--replication-factor",
        "1",
        "--min-insync-replicas",
        "1",
    ]
    for _ in range(2):  # a dry run leaves nothing that a second one would find
        assert diskless.run(*arguments, "--dry-run", "-o", "json").json["action"] == "would create"  # type: ignore[index]


def test_a_node_stops_cleanly_and_commands_then_say_unavailable(diskless: Installation) -> None:
    """Last in this module: it ends the node of all the others."""
    topic = topic_named(diskless, "after", 1)
    wal = pack(diskless, "after.wal", [{"topic": topic, "partition": 0, "value": "x"}])
    diskless.process.send(signal.SIGTERM)
    assert diskless.process.wait(90) == 0
    assert "ready node=7 " in diskless.log.read_text(encoding="utf-8")
    for command in (["topics", "list"], ["coordinator", "status"], ["files", "commit", wal, "--config", diskless.config]):
        diskless.run_program(*command, "--timeout", "1", status=Exit.UNAVAILABLE)
    found = {
        row["check"]: row["health"]
        for row in diskless.run("doctor", "--config", diskless.config, "--timeout", "5", "-o", "jsonl", status=1).rows
    }
    assert (found["nodes"], found["kafka topic"]) == ("error", "ok")
