"""`diskless monitor verify` against a real service after a hard life: deletions, duplicates, deleted topics, a fail-over.

It must agree with every live replica, by the digests that nodes tell and row by row with their state databases; and with
one flipped row in a copy of a state database it must disagree and name the row.
"""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli.dev.kafka import Kafka
from cli.outcome import Exit
from integration_tests.faults.forging import LIES
from integration_tests.faults.log_faults import Forger
from integration_tests.final_state import create_topic
from integration_tests.history import UserPartition
from integration_tests.load import Load
from integration_tests.metadata_log import ReadLog
from integration_tests.routes import Address
from integration_tests.service import Service
from integration_tests.waiting import wait_until
from records.entry_key import encode_key
from records.state_digest import hash_record
from spark_jobs.monitor.report import open_report
from spark_jobs.store.sink import Store

pytestmark = pytest.mark.timeout(600)  # Spark starts in several of them, on machines that may be busy

HERE = Path(__file__).parents[1]
METADATA_PARTITIONS = 3
COMMAND_TIMEOUT_S = 200
LOG_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A command that ended."""

    status: int
    out: str
    err: str

    @property
    def outcome(self) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.out)
        return found

    @property
    def partitions(self) -> list[dict[str, object]]:
        found = self.outcome["partitions"]
        assert isinstance(found, list)
        return found


def diskless(*arguments: str | Path) -> Ended:
    """Run a command as people do."""
    command = [sys.executable, "-m", "cli.program", *map(str, arguments)]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False)
    return Ended(status=done.returncode, out=done.stdout, err=done.stderr)


def addresses(service: Service) -> dict[int, Address]:
    """Where the nodes are."""
    found = {}
    for node_id, node in service.nodes.items():
        host, _, port = node.address.rpartition(":")
        found[node_id] = Address(host, int(port))
    return found


@pytest.fixture(scope="module")
def lived(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that had a load with deletions, lost a leader in it, and deleted a topic; the load has ended."""
    with Service(kafka.bootstrap, tmp_path_factory.mktemp("verify"), partitions=METADATA_PARTITIONS) as service:
        service.start(2)
        nodes = addresses(service)
        owners: Mapping[UserPartition, int] = create_topic(nodes, "orders", 9)
        doomed = create_topic(nodes, "doomed", 4)
        with Load(nodes, {**owners, **doomed}, seed=5, consumers=True) as load:
            load.wait_flowing(30)
            service.nodes[1].kill()
            load.wait_flowing(10)
            service.nodes[1].start()
            load.wait_flowing(30)
        service.wait_shared()
        deleted = diskless("topics", "delete", "doomed", "--yes", "--bootstrap-server", ",".join(service.addresses))
        assert deleted.status == Exit.OK, deleted.err
        # Deletions are dated by the first file behind them.
        with Load(nodes, owners, seed=6) as load:
            load.wait_flowing(3)
        yield service


def verify(service: Service, *arguments: str | Path) -> Ended:
    """Compare with the service's log."""
    return diskless("monitor", "verify", "--kafka-bootstrap-server", service.bootstrap, "--metadata-topic", service.topic, *arguments)


def write_a_lie(service: Service, kpart: int) -> int:
    """Write what contradicts the log in the name of the leader, and wait until its term has ended; returns the entry's offset."""
    with Forger(service.bootstrap, service.topic, kpart) as forger:

        def follow() -> ReadLog:
            assert forger.catch_up(time.monotonic() + LOG_TIMEOUT_S)
            return forger.reader.read

        def is_written() -> bool:
            follow()
            due = forger.reader.next_key
            assert due is not None
            # A leader that writes at the same moment wins; then it is void for another reason.
            forger.write([(encode_key(due), LIES["an offset ahead"](forger.reader.fold, random.Random(1))[0])])
            return bool(follow().contradictions)

        wait_until(is_written, "an entry that contradicts the log")
        (lie,) = follow().contradictions
        wait_until(lambda: follow().claims[-1].offset > lie.offset, "another term")
        return lie.offset


def applied(database: Path) -> int:
    """Up to where a replica wrote its state; -1 while the database is set aside or made anew."""
    if not database.exists():
        return -1
    connection = sqlite3.connect(database)
    try:
        rows = connection.execute("SELECT applied_offset FROM header").fetchall()
    except sqlite3.OperationalError:
        return -1
    finally:
        connection.close()
    return int(rows[0][0]) if rows else -1


def test_log_and_service_agree_though_an_entry_contradicts_the_log(lived: Service, tmp_path: Path) -> None:
    kpart = 1
    offset = write_a_lie(lived, kpart)
    lived.wait_shared()
    databases = [lived.folder / f"node-{node_id}" / "data" / f"partition-{kpart}.db" for node_id in lived.nodes]
    wait_until(lambda: all(applied(one) > offset for one in databases), "all replicas to be past the entry", LOG_TIMEOUT_S)
    Store.open(tmp_path).close()
    nodes, states = ",".join(lived.addresses), [f"--state={lived.folder / f'node-{node_id}'}" for node_id in lived.nodes]
    ended = verify(lived, "--bootstrap-server", nodes, *states, "--dir", tmp_path, "-o", "json")
    assert ended.status == Exit.OK, ended.out + ended.err
    assert ended.outcome["agree"] is True
    (void,) = ended.outcome["contradictions"]  # type: ignore[misc]
    assert (void["kpart"], void["offset"]) == (kpart, offset)
    assert "missing" in void["why"]
    compared = {(one["kpart"], str(one["replica"]).split("/")[-1]) for one in ended.partitions}
    for number in range(METADATA_PARTITIONS):
        assert {(number, "node 1"), (number, "node 2"), (number, f"partition-{number}.db")} <= compared
    assert len(ended.partitions) == 4 * METADATA_PARTITIONS
    assert all(int(str(one["offset"])) > 30 for one in ended.partitions)
    assert "batches read" in ended.err
    with open_report(tmp_path) as report:
        kept = json.loads(report.job()["last_verify"])
    # The page is about the service: state databases may be copies.
    assert kept["partitions"] == [one for one in ended.partitions if str(one["replica"]).startswith("node ")]
    assert kept["agree"] is True


def copied(service: Service, kpart: int, folder: Path) -> Path:
    """A copy of the state database of a partition."""
    copy = folder / f"partition-{kpart}.db"
    assert diskless("db", "copy", next((service.folder / "node-2").glob(f"**/{copy.name}")), copy).status == Exit.OK
    return copy


def flip_a_kept_answer(copy: Path) -> str:
    """Flip one bit of the answer kept for a file, and make its proof fit; returns the file's key."""
    with closing(sqlite3.connect(copy)) as connection, connection:
        key, record = connection.execute("SELECT object_key, record FROM file WHERE length(record) > 0 ORDER BY id DESC LIMIT 1").fetchone()
        flipped = bytearray(record)
        flipped[-1] ^= 1
        values = (bytes(flipped), hash_record(bytes(flipped)), key)
        connection.execute("UPDATE file SET record = ?, record_proof = ? WHERE object_key = ?", values)
    return str(key)


def change_a_row(copy: Path) -> str:
    """Change one number of one file; returns its key."""
    sound = diskless("db", "digest", copy, "-o", "json")
    assert sound.status == Exit.OK
    assert json.loads(sound.out)[0]["sound"] is True
    with closing(sqlite3.connect(copy)) as connection, connection:
        (key,) = connection.execute("SELECT object_key FROM file WHERE live_batches > 0 ORDER BY id LIMIT 1").fetchone()
        connection.execute("UPDATE file SET file_size = file_size + 1 WHERE object_key = ?", (key,))
    assert diskless("db", "digest", copy).status == Exit.AUDIT
    return str(key)


@pytest.mark.long
def test_one_flipped_bit_of_a_kept_answer_and_one_changed_row_in_copies_are_named(lived: Service, tmp_path: Path) -> None:
    kept, changed = copied(lived, 2, tmp_path), copied(lived, 1, tmp_path)
    kept_key, changed_key = flip_a_kept_answer(kept), change_a_row(changed)
    ended = verify(lived, f"--state={kept}", f"--state={changed}", "-o", "json")
    assert ended.status == Exit.AUDIT, ended.out + ended.err
    assert ended.outcome["agree"] is False
    found = {one["kpart"]: one for one in ended.partitions}
    assert len(ended.partitions) == len(found) == 2
    assert [found[kpart]["agree"] for kpart in (1, 2)] == [False, False]
    assert f"file detail object_key={kept_key}: record is" in str(found[2]["difference"])
    assert f"file object_key={changed_key}: size_bytes is" in str(found[1]["difference"])
    assert "its header says" in str(found[1]["difference"])
