"""What is offered: versions that were read, and tagged fields as kio has them."""

from __future__ import annotations

import pytest

from gateway.front.apis import OWN, RELAYED, PortApis
from gateway.kafka_apis import KafkaApi

EACH = pytest.mark.parametrize("api", list(KafkaApi), ids=[api.text for api in KafkaApi])


@EACH
def test_numbers_versions_and_tagged_fields_are_those_of_kafka(api: KafkaApi) -> None:
    for version in range(api.first, api.last + 1):
        for kind in (api.request_type(version), api.answer_type(version)):
            assert (int(kind.__api_key__), int(kind.__version__)) == (api, version)
            assert kind.__flexible__ == api.is_flexible(version)


@EACH
def test_a_port_never_offers_more_than_was_read_nor_more_than_the_broker(api: KafkaApi) -> None:
    for narrowed in (OWN, RELAYED):
        served = PortApis(narrowed, (), ())
        for low, high in ((0, 99), (0, 3), (5, 6), (90, 99)):
            found = served.narrowed(api, low, high)
            if found is not None:
                assert low <= found[0] <= found[1] <= min(high, narrowed.get(api, (0, api.last))[1])
                assert served.find(api) is not None


def test_unknown_and_hidden_requests_are_not_offered() -> None:
    served = PortApis({}, (), [KafkaApi.FETCH])
    for key in (52, 58, 75, 83, 87, 1_000, KafkaApi.FETCH):
        assert served.narrowed(key, 0, 9) is None
        assert served.find(key) is None


def test_relay_ports_offer_no_version_whose_answers_name_addresses() -> None:
    served = PortApis(RELAYED, (), ())
    assert served.narrowed(KafkaApi.PRODUCE, 0, 13) == (0, 9)
    assert served.narrowed(KafkaApi.FETCH, 4, 18) == (4, 15)
    assert served.narrowed(KafkaApi.DESCRIBE_QUORUM, 0, 2) == (0, 1)
