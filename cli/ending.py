"""How the program ends: signals, the streams it was started with, and the last line for errors that no command expected.

Invariant: in every case a user reads one line with cause and remedy, never a traceback, and the exit status is one of
`cli.outcome.Exit`. Commands turn the errors they expect into `Failed`; what is left here is an output that cannot be
written, the system's refusals (`OSError`), and defects, whose traceback goes to a file that the line names.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, NoReturn, TextIO

from cli.progress import clear

GRACE_S = 0.7
"""How long a command may clean up after a signal before the process is ended under it."""
NUDGE_S = 0.05
SIGNALS = (signal.SIGINT, signal.SIGTERM)
STOPPED = "diskless: stopped by a signal before it was done"

if TYPE_CHECKING:
    from typing_extensions import Buffer

_is_stopping = threading.Event()


def is_stopping() -> bool:
    """Whether a signal has ended the command."""
    return _is_stopping.is_set()


def take_signals() -> None:
    """Let SIGTERM and SIGINT end the command alike: KeyboardInterrupt where it is, and the end of the process soon after."""
    for number in SIGNALS:
        # A shell starts jobs in the background with SIGINT ignored, and means it.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _on_signal)


def hear_signals() -> None:
    """Have the signals that end the command heard in this thread, wherever it waits; after `take_streams`, whose places are taken.

    A signal that comes a moment before that thread waits in the system does not end its wait: a long poll would go on for half a minute.
    """
    told, tells = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    os.set_blocking(told, True)
    signal.set_wakeup_fd(tells, warn_on_full_buffer=False)
    wake = partial(signal.pthread_kill, threading.get_ident())
    threading.Thread(target=wake_for_signals, args=(told, _is_heard, wake), name="signals", daemon=True).start()


def wake_for_signals(told: int, is_heard: Callable[[int], bool], wake: Callable[[int], object]) -> None:
    """Send each signal that ends the command, of which a pipe tells, again until it is heard; ends with the pipe."""
    while numbers := os.read(told, 64):
        for number in SIGNALS:
            while number in numbers and not is_heard(number):
                wake(number)


def _is_heard(number: int) -> bool:
    """Whether a signal does what it has to, which it is given a moment for; a command that takes signals in its own way sees to that."""
    return signal.getsignal(number) is not _on_signal or _is_stopping.wait(NUDGE_S)


@contextmanager
def held_signals() -> Iterator[None]:
    """Let signals that end the command wait for the end of the block; processes that are made in it hold them until they say otherwise."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _on_signal(_number: int, _frame: FrameType | None) -> None:
    if _is_stopping.is_set():
        return
    _is_stopping.set()
    # Threads inside a client's call cannot be interrupted, and the interpreter would wait for them.
    timer = threading.Timer(GRACE_S, _end_now)
    timer.daemon = True
    timer.start()
    raise KeyboardInterrupt


def _end_now() -> None:
    with suppress(OSError):
        os.write(2, f"{STOPPED}\n".encode())
    os._exit(1)


class _Output(io.FileIO):
    """A standard stream whose errors say that it was it, and before whose writes the line of `cli.progress` is taken away."""

    def __init__(self, descriptor: int, shown: str) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._shown = shown

    def write(self, data: Buffer, /) -> int:
        clear()
        try:
            return super().write(data)
        except OSError as error:
            raise OSError(error.errno, error.strerror, self._shown) from None


def take_streams() -> None:
    """Open the standard streams the program was started without, so that no file takes their place, and name those it writes to."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != descriptor:
                os.dup2(opened, descriptor)
                os.close(opened)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8")  # noqa: SIM115 - it lives as long as the process
    sys.stdout = _named(1, sys.stdout, "standard output", "strict")
    sys.stderr = _named(2, sys.stderr, "standard error", "backslashreplace")


def _named(descriptor: int, stream: TextIO | None, shown: str, errors: str) -> TextIO:
    encoding = "utf-8" if stream is None else stream.encoding
    raw = _Output(descriptor, shown)
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding, errors, line_buffering=errors != "strict" or raw.isatty())


def refuse_undecodable(arguments: list[str]) -> str | None:
    """Return what is wrong with the arguments or our variables: bytes that are no text could be neither sent nor printed."""
    named = [(f"argument {number}", text) for number, text in enumerate(arguments, 1)]
    named += [(f"the variable {name}", text) for name, text in os.environ.items() if name.startswith("DISKLESS_")]
    for name, text in named:
        try:
            text.encode()
        except UnicodeEncodeError:
            shown = os.fsencode(text).decode("utf-8", "backslashreplace")
            return f"{name} is no text in UTF-8: {shown}; set a UTF-8 locale, or rename the file"
    return None


def describe(error: BaseException) -> str:
    """Describe an error that no command expected in one line: what happened, and what to do."""
    if isinstance(error, UnicodeEncodeError) and error.encoding != "utf-8":
        return f"the output's encoding {error.encoding} has no {error.object[error.start : error.end]!r}; set PYTHONIOENCODING=utf-8"
    if isinstance(error, OSError) and error.errno is not None:
        where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
        return f"{where}{_reason(error)}{_remedy(error)}"
    return f"a defect of diskless: {_first_line(error)}; please report it with {keep_details(error)}"


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


def _remedy(error: OSError) -> str:
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return "; free some space there"
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return "; correct its owner and mode, or run as a user who may"
        case errno.EMFILE | errno.ENFILE:
            return "; raise the limit of open files (ulimit -n)"
        case _:
            return "; correct the path"


def _first_line(error: BaseException) -> str:
    try:
        text = str(error).strip().partition("\n")[0]
    except Exception:  # noqa: BLE001 - the text of an exception from Spark is asked of a JVM, which may have ended
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def keep_details(error: BaseException) -> str:
    """Write the traceback to a file and name that; without the command line, which may hold passwords."""
    import platform
    import tempfile
    import traceback

    text = "".join(traceback.format_exception(error))
    try:
        with tempfile.NamedTemporaryFile("w", prefix="diskless-error-", suffix=".txt", delete=False, encoding="utf-8") as file:
            file.write(f"Python {platform.python_version()} on {platform.platform()}\n{text}")
            return file.name
    except OSError as reason:
        return f"its place, {_place(error)} (the traceback could not be written: {reason})"


def _place(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "unknown" if trace is None else f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"


def say_last(line: str) -> None:
    """Print the last line; where standard error cannot be written either, the exit status is all there is."""
    with suppress(OSError, ValueError):
        print(line, file=sys.stderr, flush=True)


def leave(status: object) -> NoReturn:
    """End the process at once with a status as `sys.exit` takes it.

    Threads of the object store's client abort a process that ends slowly, and those inside a call of Kafka's client hold it up.
    """
    code = status if isinstance(status, int) else 0 if status is None else 1
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            code = code or 1
        except OSError as error:
            if code == 0:  # otherwise the reason was printed
                say_last(f"diskless: {describe(error)}")
            code = code or 1
        except ValueError:
            continue
    os._exit(code)
