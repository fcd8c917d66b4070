"""Each operation has an ACL, and an answer that refuses a request as a whole in each of its elements."""

from __future__ import annotations

import uuid
from dataclasses import fields, is_dataclass
from datetime import timedelta
from typing import Any

import pytest

from coordinator.core.commands import Outcome
from coordinator.kafka.acls import AclOperation
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.declaration import Operation
from coordinator.operations.first_error import first_error
from coordinator.operations.table import OPERATIONS
from coordinator.protocol import messages
from coordinator.protocol.api_keys import ApiKey
from coordinator.protocol.codec import decode, encode
from coordinator.protocol.codec_fields import shape
from coordinator.protocol.commit_file import CommitFileBody, batch_rows, encode_commit_file
from coordinator.protocol.entity import blank

REFUSED = Outcome(error=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, message="User:eve may not")
TOPIC = bytes([7]) * 16
WITHOUT_LOGIN = {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
VALUES = {"string": "a", "bytes": b"", "bool": True, "timedelta_i32": timedelta(0)}


def of(key: int) -> Operation:
    [found] = [one for one in OPERATIONS if one.key == key]
    return found


def sample(part: Any) -> Any:
    """A message with two elements in each of its arrays."""
    values: dict[str, object] = {}
    for item in fields(part):
        is_array, inner, _ = shape(item)
        kind = str(item.metadata.get("kafka_type"))
        value = sample(inner) if is_dataclass(inner) else VALUES.get(kind, 1)
        if kind == "uuid":
            value = uuid.UUID(bytes=TOPIC) if inner is uuid.UUID else TOPIC
        values[item.name] = (value, value) if is_array else value
    return part(**values)


def codes(message: Any) -> list[int]:
    """Every error code in a message, wherever it stands."""
    found = []
    for item in message.__dataclass_fields__:
        value = getattr(message, item)
        if item == "error_code":
            found.append(int(getattr(value, "value", value)))
        elif isinstance(value, tuple):
            found += [code for one in value if hasattr(one, "__dataclass_fields__") for code in codes(one)]
    return found


def test_every_operation_says_who_may_do_it() -> None:
    assert {one.key for one in OPERATIONS if not one.acl} == WITHOUT_LOGIN
    assert all(one.acl == {AclOperation.CLUSTER_ACTION} for one in OPERATIONS if one.kip_key is not None or one.is_internal)
    assert {one.name for one in OPERATIONS if one.only_looks is not None and AclOperation.ALTER not in one.acl} == set()


@pytest.mark.parametrize(
    ("key", "version"), [(one.key, version) for one in OPERATIONS if one.key not in WITHOUT_LOGIN for version in one.versions]
)
def test_a_refusal_says_31_in_each_element(key: int, version: int) -> None:
    operation = of(key)
    request = sample(operation.versions[version].request_type)
    answer: Any = decode(operation.versions[version].response_type, operation.refusal(version, b"head" + encode(request), 4, REFUSED))
    if key == ApiKey.DESCRIBE_LOG_DIRS and version < 3:
        assert answer.results == ()  # Kafka had no place for an error there
        return
    assert first_error(answer) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert set(codes(answer)) - {0} == {int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)}
    if not hasattr(answer, "error_code"):
        assert len(codes(answer)) >= 2
        assert 0 not in codes(answer)


def test_a_refused_commit_of_the_general_form_is_counted_by_its_batches() -> None:
    operation = of(ApiKey.COMMIT_FILE)
    request = sample(messages.CommitFileRequest)
    body = encode_commit_file(CommitFileBody("key", 1, 10, [0], batch_rows(request.batches)))
    answer: Any = decode(messages.CommitFileResponse, operation.refusal(0, body, 0, REFUSED))
    assert [one.error_message for one in answer.batches] == ["User:eve may not"] * 2


def test_a_look_is_told_from_a_change() -> None:
    scan, level = of(ApiKey.SCAN_ORPHANS), of(ApiKey.UPDATE_SCHEMA_LEVEL)
    restore, retention = of(ApiKey.FINISH_RESTORE), of(ApiKey.ENFORCE_RETENTION)
    cases: list[tuple[Operation, Any, bool]] = [
        *((scan, blank(messages.ScanOrphansRequest, action=action), action != 1) for action in (0, 1, 2)),
        (scan, blank(messages.ScanOrphansRequest, action=3), True),
        *((level, blank(messages.UpdateSchemaLevelRequest, level=number), number == 0) for number in (-1, 0, 1)),
        (restore, blank(messages.FinishRestoreRequest), True),
        (restore, blank(messages.FinishRestoreRequest, restore_id=TOPIC), False),
        (retention, blank(messages.EnforceRetentionRequest, dry_run=True), True),
        (retention, blank(messages.EnforceRetentionRequest), False),
    ]
    for operation, request, looks in cases:
        assert operation.only_looks is not None
        assert operation.only_looks(request) is looks, request
