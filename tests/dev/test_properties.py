"""The properties of a node, pure: listeners, quorum, sizes, and that the caller's own win."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.dev.kafka.properties import ExtraListener, NodeAddress, Profile, jvm_options, render, server_properties

NODES = [NodeAddress(node_id=i, client_port=9000 + i, controller_port=9100 + i, extra_ports=(9200 + i,)) for i in (1, 2, 3)]
PROXIED = ExtraListener(name="PROXIED", security_protocol="SSL", advertised_host="proxy", advertised_ports=(1, 2, 3))
ONE = NodeAddress(node_id=1, client_port=9001, controller_port=9101)


def test_every_node_names_the_same_quorum() -> None:
    made = [server_properties(node, cluster=NODES, data_folder=Path("/d"), listeners=[PROXIED]) for node in NODES]
    assert {one["controller.quorum.voters"] for one in made} == {"1@127.0.0.1:9101,2@127.0.0.1:9102,3@127.0.0.1:9103"}
    assert [one["node.id"] for one in made] == ["1", "2", "3"]


def test_listeners_are_bound_to_loopback_and_advertised_where_the_proxy_is() -> None:
    made = server_properties(NODES[1], cluster=NODES, data_folder=Path("/d"), listeners=[PROXIED])
    assert made["listeners"] == "PLAINTEXT://127.0.0.1:9002,CONTROLLER://127.0.0.1:9102,PROXIED://127.0.0.1:9202"
    assert made["advertised.listeners"] == "PLAINTEXT://127.0.0.1:9002,PROXIED://proxy:2"
    assert made["listener.security.protocol.map"] == "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,PROXIED:SSL"


def test_without_advertised_ports_the_real_one_is_advertised() -> None:
    made = server_properties(NODES[0], cluster=NODES, data_folder=Path("/d"), listeners=[ExtraListener(name="MORE")])
    assert made["advertised.listeners"].endswith("MORE://127.0.0.1:9201")


@pytest.mark.parametrize(("cluster", "factor", "in_sync"), [([ONE], "1", "1"), (NODES, "3", "2")])
def test_internal_topics_are_replicated_as_far_as_there_are_nodes(cluster: list[NodeAddress], factor: str, in_sync: str) -> None:
    made = server_properties(ONE, cluster=cluster, data_folder=Path("/d"))
    factors = {value for key, value in made.items() if key.endswith("replication.factor")}
    assert factors == {factor}
    assert {made["min.insync.replicas"], made["transaction.state.log.min.isr"]} == {in_sync}


def test_a_small_heap_has_a_small_cleaner_buffer_and_a_large_one_keeps_kafkas_defaults() -> None:
    test = server_properties(ONE, cluster=[ONE], data_folder=Path("/d"))
    bench = server_properties(ONE, cluster=[ONE], data_folder=Path("/d"), profile=Profile.BENCH)
    assert test["log.cleaner.dedupe.buffer.size"] == "2097152"
    assert "log.cleaner.dedupe.buffer.size" not in bench
    assert "num.io.threads" not in bench


def test_the_callers_properties_win() -> None:
    made = server_properties(ONE, cluster=[ONE], data_folder=Path("/d"), session_timeout_ms=9000, extra={"num.io.threads": "7"})
    assert made["num.io.threads"] == "7"
    assert made["broker.session.timeout.ms"] == "9000"


def test_rendered_properties_are_one_line_each() -> None:
    assert render({"a.b": "1", "c": "x=y, z"}) == "a.b=1\nc=x=y, z\n"


@pytest.mark.parametrize(("key", "value"), [("a", "1\n2"), ("a", " x"), ("a", "c:\\x"), ("a b", "1"), ("a=b", "1")])
def test_what_java_would_read_differently_is_refused(key: str, value: str) -> None:
    with pytest.raises(ValueError, match="cannot be written"):
        render({key: value})


def test_jvm_options_of_the_profiles() -> None:
    test = jvm_options(Profile.TEST, archive=Path("/x.jsa"), log4j2=Path("/l"))
    bench = jvm_options(Profile.BENCH, archive=None, log4j2=Path("/l"))
    assert {"-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:SharedArchiveFile=/x.jsa", "-XX:+UseSerialGC"} <= set(test)
    assert "-Xmx512m" in bench
    assert not [option for option in bench if "TieredStopAtLevel" in option or "SharedArchive" in option]
