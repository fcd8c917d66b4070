"""What is offered: versions that were read, and tagged fields as kio has them."""

from __future__ import annotations

import pytest

from gateway.front.apis import APIS, OWN, RELAYED, KafkaKey, PortApis
from integration_tests.gateway.samples import message_type

EACH = pytest.mark.parametrize("key", sorted(APIS), ids=[APIS[key].name for key in sorted(APIS)])


@EACH
def test_numbers_versions_and_tagged_fields_are_those_of_kafka(key: int) -> None:
    api = APIS[key]
    for version in range(api.first, api.last + 1):
        for part in ("request", "response"):
            kind = message_type(key, version, part)
            assert (int(kind.__api_key__), int(kind.__version__)) == (key, version)
            assert kind.__flexible__ == api.is_flexible(version)


@EACH
def test_a_port_never_offers_more_than_was_read_nor_more_than_the_broker(key: int) -> None:
    for narrowed in (OWN, RELAYED):
        served = PortApis(narrowed, (), ())
        for low, high in ((0, 99), (0, 3), (5, 6), (90, 99)):
            found = served.narrowed(key, low, high)
            if found is not None:
                assert low <= found[0] <= found[1] <= min(high, narrowed.get(key, (0, APIS[key].last))[1])
                assert served.find(key) is not None


def test_unknown_and_hidden_requests_are_not_offered() -> None:
    served = PortApis({}, (), [KafkaKey.FETCH])
    for key in (KafkaKey.DESCRIBE_TOPIC_PARTITIONS, 52, 58, 83, 87, 1_000, KafkaKey.FETCH):
        assert served.narrowed(key, 0, 9) is None
        assert served.find(key) is None


def test_relay_ports_offer_no_version_whose_answers_name_addresses() -> None:
    served = PortApis(RELAYED, (), ())
    assert served.narrowed(KafkaKey.PRODUCE, 0, 13) == (0, 9)
    assert served.narrowed(KafkaKey.FETCH, 4, 18) == (4, 15)
    assert served.narrowed(KafkaKey.DESCRIBE_QUORUM, 0, 2) == (0, 1)
