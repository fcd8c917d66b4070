"""The table of metrics, telling and reading them."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest
from prometheus_client.parser import text_string_to_metric_families

from coordinator.adapters.metrics import PREFIX, TABLE, Metric, MetricKind, Metrics, Sample


def values(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    metrics.collect()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
    }


def test_names_follow_prometheus() -> None:
    assert len({metric.name for metric in TABLE}) == len(TABLE)
    for metric in TABLE:
        assert re.fullmatch(r"[a-z][a-z_]*[a-z]", metric.name), metric.name
        assert (metric.kind is MetricKind.COUNTER) == metric.name.endswith("_total"), metric.name
        assert not re.search(r"_(ms|millis|us|mb|kb|percent)(_|$)", metric.name), metric.name
        assert metric.help.endswith("."), metric.name
        assert set(metric.labels) <= {
            "partition",
            "version",
            "state",
            "reason",
            "quota",
            "error",
            "api",
            "listener",
            "client",
            "directory",
            "loop",
            "event",
            "node_id",
            "rack",
            "clock",
            "kind",
            "step",
        }, metric.name
        assert (metric.kind is MetricKind.HISTOGRAM) == bool(metric.buckets), metric.name
        assert metric.buckets == tuple(sorted(metric.buckets)), metric.name


def test_every_declared_metric_is_exported() -> None:
    text = Metrics().render().decode()
    told = [metric for metric in TABLE if not metric.is_read]
    for metric in told:
        family = PREFIX + metric.name
        assert f"# HELP {family} " in text, metric.name
        assert f"# TYPE {family} {metric.kind.value}\n" in text, metric.name


def test_told_metrics() -> None:
    metrics = Metrics([*TABLE, Metric(name="level", kind=MetricKind.GAUGE, help="A level.")])
    metrics.add("leader_changes_total", 1, 3)
    metrics.add("leader_changes_total", 2, 3)
    metrics.add("appended_bytes_total", 17, 0)
    metrics.observe("group_files", 70)
    metrics.observe("request_seconds", 0.003, "CommitFile")
    metrics.set("level", 5)
    found = values(metrics)
    assert found[(PREFIX + "leader_changes_total", (("partition", "3"),))] == 3
    assert found[(PREFIX + "appended_bytes_total", (("partition", "0"),))] == 17
    assert found[(PREFIX + "group_files_bucket", (("le", "50.0"),))] == 0
    assert found[(PREFIX + "group_files_bucket", (("le", "100.0"),))] == 1
    assert found[(PREFIX + "request_seconds_sum", (("api", "CommitFile"),))] == 0.003
    assert found[(PREFIX + "level", ())] == 5


def test_read_metrics_are_as_of_the_last_collect() -> None:
    metrics = Metrics()
    states = {"leading": 2, "following": 6}
    metrics.read_from(lambda: [Sample("partitions", (state,), number) for state, number in states.items()])
    metrics.read_from(lambda: [Sample("received_bytes_total", ("PLAINTEXT",), 17)])
    found = values(metrics)
    assert found[(PREFIX + "partitions", (("state", "leading"),))] == 2
    assert found[(PREFIX + "received_bytes_total", (("listener", "PLAINTEXT"),))] == 17
    del states["following"]
    assert (PREFIX + "partitions", (("state", "following"),)) not in values(metrics)


def test_undeclared_names_and_labels_fail() -> None:
    metrics = Metrics()
    with pytest.raises(KeyError, match="comits_total"):
        metrics.add("comits_total", 1, 0)
    with pytest.raises(KeyError, match="group_files"):
        metrics.add("group_files", 1)
    with pytest.raises(KeyError, match="commits_total"):
        metrics.add("commits_total", 1, 0)  # is read, not told
    with pytest.raises(ValueError, match="label"):
        metrics.add("leader_changes_total", 1, 0, "x")
    with pytest.raises(ValueError, match="missing label"):
        metrics.add("leader_changes_total")


@pytest.mark.parametrize(("samples", "error"), [([Sample("none", (), 1)], KeyError), ([Sample("partitions", (), 1)], ValueError)])
def test_reader_of_undeclared_metrics_fails_the_collect(samples: Iterable[Sample], error: type[Exception]) -> None:
    metrics = Metrics()
    metrics.read_from(lambda: samples)
    with pytest.raises(error):
        metrics.collect()


def test_process_metrics_are_there() -> None:
    assert values(Metrics())[("process_resident_memory_bytes", ())] > 1_000_000
