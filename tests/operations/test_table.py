"""The table of requests, and ApiVersions derived from it."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.operations import discovery, files
from coordinator.operations.declaration import AnsweredBy
from coordinator.operations.table import APIS, OPERATIONS, ApiTable, operation_of
from coordinator.protocol import messages
from coordinator.protocol.api_keys import ApiKey
from coordinator.protocol.codec import decode, encode
from coordinator.protocol.wire import MalformedMessage
from coordinator.runtime.answers.serving import ANSWERS, ANSWERS_OF_LISTENERS, PROCEDURES
from tests.decoding import decode_request

KIP_KEYS = {93, 94, 95, 96, 97, 98, 100}
INTERNAL = {59, 73, 10210, 10211, 10212, 10213, 10214, 10231, 10232, 10233}


def test_kip_operations_are_served_under_both_numbers() -> None:
    assert {key for key, api in APIS.items() if api.is_kip_key} == KIP_KEYS
    for key in KIP_KEYS:
        assert APIS[key].operation.key == key + 10_000
        assert APIS[key].versions == APIS[key + 10_000].versions
        assert not APIS[key + 10_000].is_kip_key


@pytest.mark.parametrize(("kip", "internal"), [(True, True), (False, True), (True, False), (False, False)])
def test_hidden_requests_are_neither_served_nor_listed(kip: bool, internal: bool) -> None:
    table = ApiTable(wire_kip_keys_enabled=kip, internal_enabled=internal)
    hidden = (set() if kip else KIP_KEYS) | (set() if internal else INTERNAL)
    assert {key for key, _, _ in table.ranges()} == set(APIS) - hidden
    assert {key for key in APIS if table.find(key) is None} == hidden
    answer: Any = decode(APIS[18].versions[3].response_type, table.api_versions_body(3))
    assert [(one.api_key, one.min_version, one.max_version) for one in answer.api_keys] == table.ranges()


@pytest.mark.parametrize("version", range(5))
def test_api_versions_is_answered_in_each_version(version: int) -> None:
    table = ApiTable()
    body = table.api_versions_body(version)
    answer: Any = decode(APIS[18].versions[version].response_type, body)
    assert encode(answer) == body
    assert answer.error_code == 0
    assert [(one.api_key, one.min_version, one.max_version) for one in answer.api_keys] == table.ranges()
    assert (3, 9, 12) in table.ranges()
    assert (10, 4, 6) in table.ranges()


@pytest.mark.parametrize("version", [5, 100, -1])
def test_unknown_versions_of_api_versions_get_35_and_the_range(version: int) -> None:
    answer: Any = decode(APIS[18].versions[0].response_type, ApiTable().api_versions_body(version))
    assert answer.error_code == 35
    assert [(one.api_key, one.min_version, one.max_version) for one in answer.api_keys] == [(18, 0, 4)]


def test_versions_are_without_holes() -> None:
    for api in APIS.values():
        assert sorted(api.versions) == list(range(min(api.versions), max(api.versions) + 1))


def test_every_operation_is_answered_by_something() -> None:
    by_the_server = {discovery.API_VERSIONS.key, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
    by_callback = {one.key for one in OPERATIONS if one.has_own_codec}
    of_elements = {one.key for one in OPERATIONS if one.translation is not None and one.translation.command is not None}
    groups = [by_the_server, by_callback, of_elements, set(ANSWERS), set(ANSWERS_OF_LISTENERS), set(PROCEDURES)]
    assert sorted(key for group in groups for key in group) == sorted(one.key for one in OPERATIONS)
    for one in OPERATIONS:
        if one.translation is not None:
            assert (one.translation.best is not None) == (one.answered_by is AnsweredBy.EVERY_COORDINATOR), one.name
            assert (one.translation.command is None) == (one.key in PROCEDURES), one.name


def test_our_client_uses_the_shifted_numbers() -> None:
    assert operation_of(messages.CommitFileRequest) == (files.COMMIT_FILE, 0)
    assert operation_of(messages.ListFilesRequest) == (files.LIST_FILES, 0)
    assert operation_of(APIS[3].versions[11].request_type) == (discovery.METADATA, 11)
    assert (files.COMMIT_FILE.key, files.LIST_FILES.key) == (10095, 10202)


@pytest.mark.parametrize(("key", "version"), [(0, 0), (95, 1), (10095, -1), (99, 0), (3, 8)])
def test_unknown_requests_and_versions_are_refused(key: int, version: int) -> None:
    with pytest.raises(MalformedMessage, match=f"version {version} of request {key} is not known"):
        decode_request(key, version, b"")


def test_bytes_after_the_end_are_ignored_in_kafka_s_own_requests_only() -> None:
    # What librdkafka 2.16 sends to ask for all topics: null, two false, no tags, and three bytes more.
    request: Any = decode_request(3, 12, bytes.fromhex("00000000010000"))
    assert (request.topics, request.allow_auto_topic_creation, request.include_topic_authorized_operations) == (None, False, False)
    with pytest.raises(MalformedMessage, match="3 bytes follow the end of DeleteTopicsRequest"):
        decode_request(10094, 0, encode(messages.DeleteTopicsRequest(topics=())) + bytes(3))
