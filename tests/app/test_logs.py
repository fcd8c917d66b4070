"""Text from outside makes no lines of its own in the log, on a terminal or in a shell, whatever it is."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
import threading
import time
from types import TracebackType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli.outcome import Failed
from coordinator.app.process.logs import EVENT, LineFormatter, set_up_logging
from coordinator.printable import MARGIN, indented, one_line, plain, quoted

FORGED = "x\n2026-01-01T00:00:00.000Z CRITICAL coordinator.app all is lost\x1b[2J\r\u202e\x9b31m\u2028\x85"
TEXTS = st.one_of(
    st.text(),
    st.text(
        alphabet=st.sampled_from("\n\r\t\x0b\x0c\x00\x07\x1b[]2J;\x7f\x85\x9b\u200b\u2028\u2029\u202e\u2066\ud800\U000e0041ab {}%s'\"\\")
    ),
)
EVENT_LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z [A-Z]+ ")
ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]


def record(message: str, *arguments: object, name: str = "coordinator.test", exc_info: ExcInfo | None = None) -> logging.LogRecord:
    return logging.LogRecord(name, logging.WARNING, "file.py", 1, message, arguments, exc_info)


def raised(text: str, cause: str, note: str) -> ExcInfo:
    try:
        try:
            raise KeyError(cause)
        except KeyError as error:
            raise RuntimeError(text) from error
    except RuntimeError as error:
        error.add_note(note)
        return type(error), error, error.__traceback__


def assert_is_one_event(shown: str) -> None:
    first, *rest = shown.split("\n")
    assert EVENT_LINE.match(first)
    assert first.isprintable()
    for line in rest:
        assert line.startswith(MARGIN)
        assert line.isprintable()


@given(TEXTS, TEXTS)
def test_any_message_is_one_line(text: str, name: str) -> None:
    for shown in (record("value=%s", text, name=name), record("%r %s", text, [text], name=name), record(text, name=name)):
        line = LineFormatter(EVENT).format(shown)
        assert_is_one_event(line)
        assert "\n" not in line


@given(TEXTS, TEXTS, TEXTS)
def test_any_traceback_is_indented_below_its_line(text: str, cause: str, note: str) -> None:
    shown = record("it failed: %s", text, exc_info=raised(text, cause, note))
    assert_is_one_event(LineFormatter(EVENT).format(shown))
    shown.stack_info = f"Stack (most recent call last):\n{text}"
    assert_is_one_event(LineFormatter(EVENT).format(shown))


def test_a_traceback_can_be_read() -> None:
    lines = LineFormatter(EVENT).format(record("it failed", exc_info=raised("boom", "cause", "a note"))).split("\n")
    assert lines[0].endswith("WARNING coordinator.test it failed")
    assert lines[1] == f"{MARGIN}Traceback (most recent call last):"
    assert f"{MARGIN}KeyError: 'cause'" in lines
    assert lines[-1] == f"{MARGIN}a note"


@settings(max_examples=30, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=30))
def test_a_quoted_text_is_one_word_of_a_shell(texts: list[str]) -> None:
    command = " ".join(["printf", r"'%s\0'", *map(quoted, texts)])
    assert command.isprintable()
    done = subprocess.run(["sh", "-c", command], capture_output=True, check=True)
    assert done.stdout.decode().split("\0")[:-1] == [one_line(text) for text in texts]


@given(st.text(alphabet=st.characters(categories=["L", "N", "P", "S"])))
def test_what_is_printable_stays_as_it_is(text: str) -> None:
    assert one_line(text) == indented(text) == text


@pytest.mark.parametrize("hook", ["thread", "unraisable"])
def test_exceptions_that_nothing_catches_are_events_too(
    hook: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    for place, name in ((sys, "excepthook"), (sys, "unraisablehook"), (threading, "excepthook")):
        monkeypatch.setattr(place, name, getattr(place, name))
    level = root.level
    set_up_logging()
    root.setLevel(level)
    if hook == "thread":
        thread = threading.Thread(target=_fail, name=FORGED)
        thread.start()
        thread.join()
    else:
        _FailsAtItsEnd()
    shown = capsys.readouterr().err.removesuffix("\n")
    assert_is_one_event(shown)
    assert "all is lost" in shown


class _FailsAtItsEnd:
    def __del__(self) -> None:
        raise RuntimeError(FORGED)


def _fail() -> None:
    raise RuntimeError(FORGED)


JAVA = "org.apache.kafka.common.errors.PolicyViolationException: no"
STACK = "\n\tat kafka.server.KafkaApis.handle(KafkaApis.scala:1)\n\tat java.lang.Thread.run()\n\t... 3 more"
INTERNALS = f'KafkaError{{code=_TRANSPORT,val=-195,str="not made: {JAVA}, "you" may not"}}: java.lang.NullPointerException: x{STACK}'
TOLD = '_TRANSPORT: not made: PolicyViolationException: no, "you" may not: NullPointerException: x'


def test_internals_of_kafkas_clients_are_shown_only_when_everything_is_logged() -> None:
    shown, logger = record("topic not created error=%s", INTERNALS), logging.getLogger("coordinator.app")
    level = logger.level
    try:
        logger.setLevel(logging.INFO)
        assert LineFormatter(EVENT).format(shown).endswith(f"topic not created error={TOLD}")
        of_defect = LineFormatter(EVENT).format(record("it failed", exc_info=raised(INTERNALS, "cause", "note")))
        assert f"{MARGIN}RuntimeError: {TOLD}\n" in of_defect
        logger.setLevel(logging.DEBUG)
        assert "KafkaApis.scala:1" in LineFormatter(EVENT).format(shown)
    finally:
        logger.setLevel(level)
    assert str(Failed(f"Kafka: {INTERNALS}; retry")) == f"Kafka: {TOLD}; retry"


@pytest.mark.parametrize(
    "text", ["User:com.example.OrderService", "orders.v1.Error", "orders.kafka.Error", "a.b", "10.0.0.1:9092\n  more", "KafkaError{"]
)
def test_other_texts_are_not_shortened(text: str) -> None:
    assert plain(text) == text


@pytest.mark.parametrize("piece", ["a.", 'KafkaError{code=a,val=1,str="', "\n  at x", "\n ", "A", "a.A", " "])
def test_a_long_text_takes_no_time(piece: str) -> None:
    started_s = time.process_time()
    plain(piece * 20_000)
    assert time.process_time() - started_s < 5
