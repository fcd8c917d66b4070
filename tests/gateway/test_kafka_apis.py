"""Requests are read as brokers read them: bytes behind a request are left alone, whatever room serves it."""

from __future__ import annotations

import pytest

from gateway.kafka_apis import KafkaApi
from integration_tests.gateway.samples import message_type, sample
from tests.gateway.topics.fakes import incoming

API = KafkaApi
SERVED = (API.METADATA, API.CREATE_TOPICS, API.DELETE_TOPICS, API.DESCRIBE_CONFIGS, API.LIST_OFFSETS, API.DELETE_RECORDS)


@pytest.mark.parametrize("api", SERVED, ids=[api.text for api in SERVED])
def test_bytes_behind_a_request_are_passed_over(api: KafkaApi) -> None:
    for version in range(api.first, api.last + 1):
        made = sample(message_type(api, version, "request"), {})
        request = incoming(api, made)
        assert api.read_request(request._replace(data=request.data + b"behind")) == made
