"""The parts of the monitor's job that need neither Spark nor Kafka: lock, metrics, translated properties, the log's identity."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import cast

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from spark_jobs.kafka_properties import PEM_BYTES_MAX, UntranslatableError, java_properties
from spark_jobs.monitor.endpoint import JobMetrics, MetricsPortError
from spark_jobs.monitor.facts import acknowledge_findings, record_brokers, record_job, record_partitions
from spark_jobs.monitor.lock import MonitorInUseError, hold_folder
from spark_jobs.monitor.metrics import METRICS, PREFIX
from spark_jobs.monitor.report import NoMonitorError, open_report
from spark_jobs.monitor.topic import KafkaUnavailableError, TopicBroker, TopicMissingError, TopicWatch, WatchedTopic
from spark_jobs.monitor.watcher import LogReplacedError, Watcher, check_ends, check_identity
from spark_jobs.session import find_spark
from spark_jobs.settings import JVM_OPTIONS, KAFKA_SOURCE, LOCAL_MASTER
from spark_jobs.store import sink
from spark_jobs.store.acknowledge import Choice
from spark_jobs.store.engine import DATABASE, STORE_ERRORS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with an empty database."""
    sink.Store.open(tmp_path).close()
    return tmp_path


# ---- the folder


def test_one_process_holds_a_folder_and_a_dead_one_holds_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "monitor"
    program = f"""
import sys
from pathlib import Path
from spark_jobs.monitor.lock import hold_folder
with hold_folder(Path({str(folder)!r})):
    print("held", flush=True)
    sys.stdin.read()
"""
    other = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    assert other.stdin is not None
    assert other.stdout.readline() == "held\n"
    with pytest.raises(MonitorInUseError, match=f"pid {other.pid}") as refused, hold_folder(folder):
        pass
    assert "--dir" in str(refused.value)
    other.kill()
    other.wait(10)
    other.stdin.close()
    other.stdout.close()
    with hold_folder(folder):
        assert (folder / "monitor.lock").read_text() == str(os.getpid())
    with hold_folder(folder):
        pass


def test_a_folder_without_a_database_is_refused_for_reading(tmp_path: Path) -> None:
    with pytest.raises(NoMonitorError, match="no monitor has written it"), open_report(tmp_path):
        pass


def test_a_database_whose_tables_are_still_to_be_made_is_none_yet(tmp_path: Path) -> None:
    (tmp_path / DATABASE).touch()  # as the job leaves it for a moment
    with pytest.raises(NoMonitorError, match="has only just started"), open_report(tmp_path):
        pass
    sink.Store.open(tmp_path).close()
    with open_report(tmp_path) as report:
        assert report.totals() == {}


def test_facts_are_written_beside_what_the_log_says(folder: Path) -> None:
    record_brokers(folder, [TopicBroker(1, "a", "one"), TopicBroker(2, "", "two")])
    record_brokers(folder, [TopicBroker(2, "b", "two")])
    record_job(folder, pid=7, trigger_s=2.0)
    record_job(folder, pid=8)
    with open_report(folder) as report:
        brokers = report.connection.execute("SELECT broker_id, rack, host FROM broker ORDER BY 1").fetchall()
        assert [tuple(row) for row in brokers] == [(1, "a", "one"), (2, "b", "two")]
        assert report.job() == {"pid": "8", "trigger_s": "2.0"}
        assert report.log() is None
        assert report.heads() == []


def test_no_folder_is_made_where_no_monitor_wrote(tmp_path: Path) -> None:
    with pytest.raises(STORE_ERRORS):
        record_job(tmp_path / "none", pid=7)
    assert not (tmp_path / "none").exists()


# ---- metrics


def scraped(metrics: JobMetrics) -> dict[str, dict[tuple[str, ...], float]]:
    """Samples by name and label values."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(generate_latest(metrics.registry).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


@contextmanager
def written(folder: Path) -> Iterator[sqlite3.Connection]:
    """The database of a store, for rows that no job of this test writes."""
    with closing(sqlite3.connect(folder / DATABASE)) as db, db:
        yield db


def test_the_endpoint_shows_exactly_the_metrics_of_the_list(folder: Path) -> None:
    with sink.Store.open(folder) as store:
        store.adopt_log("metadata", "id", 2)
    with written(folder) as db:
        insert = "INSERT INTO total (name, kpart, value) VALUES (?, ?, ?)"
        rows = [("entries", 0, 5), ("entries", 1, 7), ("void.stale", 0, 2), ("void.gap", 1, 3), ("batches", 0, 100), ("quarantined", 0, 1)]
        db.executemany(insert, rows)
        finding = "INSERT INTO finding (kpart, entry_offset, rule, message, seen_ms) VALUES (0, ?, ?, 'm', 1)"
        db.executemany(finding, [(1, "offset-gap"), (2, "offset-gap"), (3, "log-lost")])
        db.execute("INSERT INTO head VALUES (0, 40, 1, 1, 1, 0, 1, 40, 1, 1, '{}', NULL, NULL)")
    metrics = JobMetrics(folder, lambda: {0: 50, 1: 6}, {"verify": 3600})
    metrics.on_check_failure("verify")
    metrics.on_up(True)
    metrics.on_batch(12, 0.7)
    metrics.on_merge(0.1, 1.5)
    metrics.on_progress()
    metrics.on_kafka_error()
    found = scraped(metrics)
    ours = {name for name in found if name.startswith(PREFIX) and not name.endswith("_created")}
    expected = {name for name, one in METRICS.items() if one.kind != "histogram"}
    expected |= {f"{name}_{end}" for name, one in METRICS.items() if one.kind == "histogram" for end in ("bucket", "sum", "count")}
    assert ours == expected
    assert found[PREFIX + "entries_total"] == {(): 12}
    assert found[PREFIX + "batches_total"] == {(): 100}
    assert found[PREFIX + "files_total"] == {(): 0}
    assert found[PREFIX + "void_entries_total"] == {("stale",): 2, ("gap",): 3}
    assert found[PREFIX + "findings_total"] == {("offset-gap",): 2, ("log-lost",): 1}
    assert found[PREFIX + "lag_entries"] == {("0",): 10, ("1",): 6}
    assert found[PREFIX + "verify_disagrees"] == {(): 0}
    assert found[PREFIX + "last_verify_timestamp_seconds"] == {(): 0}
    assert found[PREFIX + "check_interval_seconds"] == {("verify",): 3600, ("objects",): 0}
    assert found[PREFIX + "check_failures_total"] == {("verify",): 1, ("objects",): 0}
    assert found[PREFIX + "findings_open"] == {("offset-gap",): 2, ("log-lost",): 1}
    assert found[PREFIX + "open_transactions"] == found[PREFIX + "open_transaction_age_seconds"] == {(): 0}
    assert found[PREFIX + "missing_files"] == found[PREFIX + "last_objects_timestamp_seconds"] == {(): 0}
    record_job(folder, last_verify='{"agree": false, "at_ms": 5000, "partitions": [{"agree": true}, {"agree": false}]}')
    record_job(folder, last_objects='{"missing_files": 2, "at_ms": 7000}')
    acknowledge_findings(folder, Choice(rule="offset-gap"), who="ann", reason="known", now_ms=1)
    with written(folder) as db:
        insert = "INSERT INTO open_transaction VALUES (?, 'move', 5, ?)"
        now_ms = time.time_ns() // 1_000_000
        db.executemany(insert, [(0, now_ms - 90_000), (1, now_ms)])
    later = scraped(metrics)
    assert later[PREFIX + "verify_disagrees"] == {(): 1}
    assert later[PREFIX + "last_verify_timestamp_seconds"] == {(): 5}
    assert later[PREFIX + "missing_files"] == {(): 2}
    assert later[PREFIX + "last_objects_timestamp_seconds"] == {(): 7}
    assert later[PREFIX + "findings_open"] == {("log-lost",): 1}
    assert later[PREFIX + "findings_total"] == {("offset-gap",): 2, ("log-lost",): 1}
    assert later[PREFIX + "open_transactions"] == {(): 2}
    assert 90 <= later[PREFIX + "open_transaction_age_seconds"][()] < 200
    record_job(folder, last_verify='{"agree": false, "at_ms": 5000, "partitions": []}')
    assert scraped(metrics)[PREFIX + "verify_disagrees"] == {(): 0}, "nothing was compared"
    assert found[PREFIX + "up"] == {(): 1}
    assert found[PREFIX + "rows_total"] == {(): 12}
    assert found[PREFIX + "freshness_seconds"] == {(): 1.5}


def test_a_port_in_use_is_refused_with_a_remedy(folder: Path) -> None:
    first = JobMetrics(folder, dict)
    host, port = first.serve("127.0.0.1", 0)
    with pytest.raises(MetricsPortError, match="--metrics-port"):
        JobMetrics(folder, dict).serve(host, port)


# ---- the log's identity


def test_another_topic_under_the_name_is_told_by_its_id() -> None:
    known = WatchedTopic("AAAA", 4)
    check_identity("metadata", known, WatchedTopic("AAAA", 4))
    with pytest.raises(LogReplacedError, match="created anew"):
        check_identity("metadata", known, WatchedTopic("BBBB", 4))
    check_identity("metadata", known, WatchedTopic("AAAA", 5))


class Growing:
    """A Kafka whose topic grew from two partitions to four; one broker does not know the fourth yet."""

    topic = "metadata"
    timeout_s = 1.0
    is_known = is_there = True

    def facts(self) -> WatchedTopic:
        if not self.is_there:
            raise TopicMissingError
        return WatchedTopic("AAAA", 4)

    def brokers(self) -> list[TopicBroker]:
        return []

    def ends(self, partitions: Sequence[int]) -> dict[int, int]:
        if not self.is_known:
            raise TopicMissingError
        return dict.fromkeys(partitions, 7)


def test_a_log_with_more_partitions_is_followed_and_their_number_noted(folder: Path) -> None:
    with sink.Store.open(folder) as store:
        store.adopt_log("metadata", "AAAA", 2)
    kafka = Growing()
    watcher = Watcher(
        cast(TopicWatch, kafka),
        WatchedTopic("AAAA", 2),
        heads=dict,
        gateways=tuple,
        on_brokers=lambda brokers: pytest.fail(f"there are none, not {brokers}"),
        on_grown=lambda partitions: record_partitions(folder, partitions),
        on_error=lambda: pytest.fail("Kafka answers"),
    )
    kafka.is_known = False
    with pytest.raises(KafkaUnavailableError, match="does not know all 4 partitions"):
        watcher.start()
    kafka.is_there = False
    with pytest.raises(LogReplacedError, match="does not exist any more"):
        watcher.look_at_identity()
    kafka.is_known = kafka.is_there = True
    watcher.start()
    watcher.stop()
    assert sorted(watcher.ends()) == [0, 1, 2, 3]
    with open_report(folder) as report:
        assert report.log() == {"topic": "metadata", "topic_id": "AAAA", "partitions": 4}


def test_a_log_that_ends_before_what_was_merged_is_refused() -> None:
    check_ends("metadata", {0: 10, 1: 3}, {0: 10, 1: 3, 2: 0})
    with pytest.raises(LogReplacedError, match="metadata-1 ends at offset 2"):
        check_ends("metadata", {0: 10, 1: 3}, {0: 10, 1: 2})


# ---- settings


def test_settings_that_would_break_the_order_or_the_job_are_not_there() -> None:
    assert not {"minPartitions", "maxRecordsPerPartition"} & set(KAFKA_SOURCE)
    assert KAFKA_SOURCE["failOnDataLoss"] == "false"
    assert LOCAL_MASTER.endswith(",3]"), "a killed worker must be tried again"
    assert any(option.startswith("-Xss") for option in JVM_OPTIONS)
    assert (find_spark() / "jars").is_dir()


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({}, {}),
        ({"socket.timeout.ms": "3000", "client.rack": "a"}, {"client.rack": "a"}),
        ({"security.protocol": "ssl"}, {"security.protocol": "SSL"}),
        (
            {"security.protocol": "sasl_plaintext", "sasl.mechanisms": "PLAIN", "sasl.username": "u", "sasl.password": 'p"\\'},
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p\\"\\\\";',
            },
        ),
        ({"ssl.endpoint.identification.algorithm": "none"}, {"ssl.endpoint.identification.algorithm": ""}),
        ({"ssl.ca.pem": "CA"}, {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": "CA"}),
        (
            {"ssl.certificate.pem": "CHAIN", "ssl.key.pem": "-----BEGIN PRIVATE KEY-----", "ssl.key.password": "x"},
            {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": "CHAIN",
                "ssl.keystore.key": "-----BEGIN PRIVATE KEY-----",
                "ssl.key.password": "x",
            },
        ),
    ],
)
def test_properties_are_translated(given: dict[str, str], made: dict[str, str]) -> None:
    assert java_properties(given) == made


def test_authorities_are_read_from_their_file(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("CA")
    assert java_properties({"ssl.ca.location": str(file)})["ssl.truststore.certificates"] == "CA"
    with pytest.raises(FileNotFoundError):
        java_properties({"ssl.ca.location": str(tmp_path / "none")})
    for wrong in (bytes(PEM_BYTES_MAX + 1), "CÄ".encode()):
        file.write_bytes(wrong)
        with pytest.raises(UntranslatableError, match=r"ssl\.ca\.location"):
            java_properties({"ssl.ca.location": str(file)})


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"enable.ssl.certificate.verification": "false"}, "enable.ssl.certificate.verification"),
        ({"sasl.oauthbearer.config": "x"}, "sasl.oauthbearer.config"),
        ({"security.protocol": "SASL_SSL"}, "GSSAPI"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, "OAUTHBEARER"),
        ({"ssl.certificate.pem": "CHAIN"}, "needs both"),
        ({"ssl.certificate.pem": "CHAIN", "ssl.key.pem": "-----BEGIN RSA PRIVATE KEY-----"}, "PKCS#8"),
    ],
)
def test_what_cannot_be_translated_is_refused(given: dict[str, str], named: str) -> None:
    with pytest.raises(UntranslatableError, match=named):
        java_properties(given)
