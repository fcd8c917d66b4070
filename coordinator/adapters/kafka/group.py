"""Who is in a consumer group, asked by a process of its own.

Admin requests that go to a group's coordinator end the process that makes them when the broker goes away at the wrong
moment: an assertion of librdkafka (`rd_kafka_enq_once_del_source_return`), which no exception handler sees. The older
`list_groups` is free of that, but knows no members of groups with the "consumer" protocol. So a child asks and may die.

Run as a program, this file reads one JSON question from standard input and prints one JSON answer.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

START_S = 10.0
"""How long a child may take besides its request: interpreter and client start in 0.2 s on an idle core."""


def describe_members(properties: Mapping[str, Any], group_id: str, timeout_s: float) -> frozenset[str]:
    """Return the client ids of a group's members; none for a group the brokers do not know. Raises `KafkaException`.

    `properties` are those of an admin client, without callbacks.
    """
    question = json.dumps({"properties": dict(properties), "group_id": group_id, "timeout_s": timeout_s})
    # Through a pipe, not as arguments: properties hold passwords. -P: the modules beside this file are not top-level ones.
    command = [sys.executable, "-P", __file__]
    try:
        child = subprocess.run(command, input=question, capture_output=True, text=True, timeout=START_S + timeout_s, check=False)
    except subprocess.TimeoutExpired:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "the process that asked got no answer in time")) from None
    if child.returncode != 0:
        last_line = (child.stderr.strip().splitlines() or ["nothing on standard error"])[-1]
        reason = f"the process that asked ended with status {child.returncode}: {last_line}"
        raise KafkaException(KafkaError(KafkaError._FAIL, reason))
    answer = json.loads(child.stdout)
    if "error" in answer:
        raise KafkaException(KafkaError(answer["error"], answer["reason"]))
    return frozenset(answer["client_ids"])


def _answer(properties: dict[str, Any], group_id: str, timeout_s: float) -> dict[str, Any]:
    admin = AdminClient(properties)  # held: a client that nobody refers to ends, and its requests with it
    future = admin.describe_consumer_groups([group_id], request_timeout=timeout_s)[group_id]
    try:
        return {"client_ids": [member.client_id for member in future.result(timeout_s + 1.0).members]}
    except KafkaException as failed:
        error: KafkaError = failed.args[0]
        return {"error": error.code(), "reason": error.str()}
    except FutureTimeoutError:
        return {"error": KafkaError._TIMED_OUT, "reason": "no answer in time"}


if __name__ == "__main__":
    print(json.dumps(_answer(**json.loads(sys.stdin.read()))))
