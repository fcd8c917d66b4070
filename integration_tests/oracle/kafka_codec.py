"""Kafka's codec for any message, ours or its own: one Java process (`Oracle.java`) that is asked by lines of JSON.

A message is given and returned in Kafka's JSON form (`definitions.py`), under the name of its definition.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from typing import Any, NamedTuple

from integration_tests.oracle.build import Built, OracleUnavailableError

END_TIMEOUT_S = 60

KafkaForm = Mapping[str, Any]
"""A message in Kafka's JSON form."""


class KafkaRefused(Exception):
    """Kafka's codec does not take this; the text is its exception."""


class Decoded(NamedTuple):
    """What Kafka read, and how many bytes it left."""

    message: dict[str, Any]
    rest_bytes: int


class KafkaCodec:
    """Use as a context manager: the process ends with it."""

    def __init__(self, built: Built) -> None:
        self._process = subprocess.Popen(built.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")

    def __enter__(self) -> KafkaCodec:
        return self

    def __exit__(self, *_: object) -> None:
        # The end of its questions ends the program; only one that hangs must be killed.
        try:
            self._process.communicate(timeout=END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            raise

    def encode(self, name: str, version: int, message: KafkaForm) -> bytes:
        """Encode a message. Raises `KafkaRefused`."""
        return bytes.fromhex(self._ask({"message": name, "version": version, "data": message})["hex"])

    def decode(self, name: str, version: int, raw: bytes) -> Decoded:
        """Decode the message these bytes begin with. Raises `KafkaRefused`."""
        answer = self._ask({"message": name, "version": version, "hex": raw.hex()})
        return Decoded(answer["data"], answer["rest"])

    def _ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise OracleUnavailableError(f"the oracle ended (status {self._process.wait(END_TIMEOUT_S)}); its last words are on stderr")
        answer: dict[str, Any] = json.loads(line)
        if "refused" in answer:
            raise KafkaRefused(answer["refused"])
        return answer
