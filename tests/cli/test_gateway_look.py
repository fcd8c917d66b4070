"""What `diskless gateways` reads from a gateway: its metrics, and what it tells the others."""

from __future__ import annotations

import logging

import pytest

from cli.kafka.cluster import KafkaPlace
from cli.looks.gateways import GatewayLook, gateway_row, look_fields, read_metrics
from cli.spark.gateways import GatewayRacks
from gateway.view.model import Address, Gateway, RelayIds

GATEWAY = Gateway(
    node_id=1001,
    rack="a",
    incarnation="01JDZ3NDEKTSV4RRFFQ69G5FAV",
    listeners={"PLAINTEXT": Address("fe80::1", 9292, 9293), "TLS": Address("host", 9400, 9401)},
    relays=RelayIds("1-3,100"),
    version="0.2.0",
    store="s3://bucket/records",
    http="http://host:9200",
)

TEXT = """\
# TYPE diskless_gateway_requests_total counter
diskless_gateway_requests_total{listener="A",api="Produce"} 3.0
diskless_gateway_requests_total{listener="B",api="Produce"} 4.0
diskless_gateway_requests_total{listener="B",api="Fetch"} 0.0
# TYPE process_open_fds gauge
process_open_fds 12.0
"""


def test_metrics_are_summed_by_a_label_and_others_than_a_gateways_are_left_out() -> None:
    look = GatewayLook(gateway=GATEWAY, metrics=read_metrics(TEXT))
    assert look.by("requests_total", "api") == {"Produce": 7.0}
    assert look.total("requests_total", listener="B") == 4.0
    assert look.total("nothing_total") == 0.0
    assert set(look.metrics) == {"requests_total"}


def test_what_is_no_text_of_metrics_is_refused() -> None:
    with pytest.raises(ValueError, match="could not convert"):
        read_metrics("diskless_gateway_x{")


def test_a_row_has_addresses_as_clients_write_them_and_the_ports_of_all_relays() -> None:
    row = gateway_row(GATEWAY)
    assert row["listeners"] == ["PLAINTEXT://[fe80::1]:9292", "TLS://host:9400"]
    assert row["relay_ports"] == ["PLAINTEXT 9293-9296", "TLS 9401-9404"]
    assert isinstance(row["started_ms"], int)
    assert row["started_ms"] > 1_700_000_000_000


def test_a_gateway_that_does_not_answer_is_described_with_its_problem() -> None:
    fields = look_fields(GatewayLook(gateway=GATEWAY, problem="does not answer"))
    assert fields["problem"] == "does not answer"
    assert fields["ready"] is None
    assert "requests" not in fields


def test_racks_that_kafka_does_not_tell_are_no_error_of_the_monitor_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    racks = GatewayRacks(KafkaPlace(bootstrap_servers="127.0.0.1:1", topic="", properties={}, settings=None), "diskless-gateways")
    with caplog.at_level(logging.WARNING, "monitor"):
        assert racks() == []
        assert racks() == []  # not asked again so soon
    [line] = [one.getMessage() for one in caplog.records]
    assert line.startswith("the racks of gateways are not known: ")
    assert "127.0.0.1:1" in line
