"""What the thread of a `KafkaLogReader` has to know from the leader of a partition, asked in a thread of its own until it is answered."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from coordinator.adapters.kafka.reading.control_records import read_control_records
from coordinator.adapters.kafka.reading.offsets import read_log_range
from coordinator.runtime.ports import LogEntry

LOG = logging.getLogger("coordinator.kafka.reader")

ASK_TIMEOUT_S: Final = 3.0
ASK_AGAIN_S: Final = 1.0

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Skipped:
    """Offsets before `stop` that librdkafka skipped: control records (`controls`, and later ones), or the reason `why` they are a gap."""

    stop: int
    controls: list[LogEntry]
    why: str = ""
    is_deleted: bool = False
    """The offsets are not in the log any more."""


class LogQuestions:
    """Asks about one topic. `then` of a question is called through `post`, if `is_wanted` still says so there."""

    def __init__(
        self, topic: str, properties: Mapping[str, Any], post: Callable[[Callable[[], None]], None], ask_again_s: float = ASK_AGAIN_S
    ) -> None:
        self._topic = topic
        self._properties = properties
        self._post = post
        self._ask_again_s = ask_again_s
        self._closed = threading.Event()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="kafka-reader-range")
        self._admin: AdminClient | None = None  # its thread only

    def close(self) -> None:
        """Ask nothing more; never waits."""
        self._closed.set()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def ask_range(self, partition: int, is_wanted: Callable[[], bool], then: Callable[[tuple[int, int]], None]) -> None:
        """Ask for the log start offset and the log end offset."""
        self._thread.submit(self._ask, f"the log range of {self._topic}-{partition}", lambda: self._range(partition), is_wanted, then)

    def ask_skipped(self, partition: int, first: int, stop: int, is_wanted: Callable[[], bool], then: Callable[[Skipped], None]) -> None:
        """Ask for the entries at offsets that librdkafka left out."""
        what = f"the batches at offsets {first} to {stop - 1} of {self._topic}-{partition}"
        self._thread.submit(self._ask, what, lambda: self._skipped(partition, first, stop), is_wanted, then)

    # ---- in the thread

    def _ask(self, what: str, question: Callable[[], Found], is_wanted: Callable[[], bool], then: Callable[[Found], None]) -> None:
        if self._closed.is_set() or not is_wanted():
            return
        try:
            found = question()
        except (KafkaException, TimeoutError) as failure:
            LOG.warning("%s is unknown (%s); it is asked for again", what, failure)
        except Exception:
            # Any error: the reading of the partition waits for the answer.
            LOG.exception("%s is unknown; it is asked for again", what)
        else:
            self._post(lambda: then(found) if is_wanted() else None)
            return
        if not self._closed.wait(self._ask_again_s):
            self._thread.submit(self._ask, what, question, is_wanted, then)

    def _range(self, partition: int) -> tuple[int, int]:
        if self._admin is None:
            self._admin = AdminClient(dict(self._properties))
        self._admin.poll(0)
        return read_log_range(self._admin, self._topic, partition, ASK_TIMEOUT_S)

    def _skipped(self, partition: int, first: int, stop: int) -> Skipped:
        try:
            controls = read_control_records(self._properties, self._topic, partition, first, stop, ASK_TIMEOUT_S)
        except KafkaException as failure:
            match failure.args[0].code():
                case KafkaError.OFFSET_OUT_OF_RANGE:
                    return Skipped(stop, [], is_deleted=True)
                case KafkaError._UNSUPPORTED_FEATURE:
                    return Skipped(stop, [], f"another program wrote in a transaction, or a broker lost entries: {failure}")
            raise
        return Skipped(stop, controls or [], "" if controls else "no transaction ended there, so a broker lost entries")
