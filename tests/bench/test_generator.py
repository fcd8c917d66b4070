"""The load against a node that says what it is told to."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress

import pytest

from cli.bench.generator import Load, Measured, Target, run_load
from cli.bench.workload import Shape
from coordinator.kafka.batches import partition_key
from coordinator.protocol.commit_file import decode_commit_file, encode_commit_response
from coordinator.protocol.framing import FrameReader, read_request_header, reply_frame

KEYS = [partition_key(bytes(16), number) for number in range(3)]


@contextmanager
def node(answers_max: int | None = None, *, is_duplicate: bool = False) -> Iterator[Target]:
    """Answers commits on one connection, in pieces of 7 bytes at first; hangs up after `answers_max`."""

    def serve(listener: socket.socket) -> None:
        peer, _ = listener.accept()
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        answered = 0
        # The load hangs up in the middle of everything when its window is over.
        with closing(peer), suppress(ConnectionError):
            frames = FrameReader(1 << 20)
            while data := peer.recv(1 << 16):
                for frame in frames.feed(data):
                    head = read_request_header(frame, flexible=True)
                    count = len(decode_commit_file(frame, head.body_offset).batches)
                    zeros = [0] * count
                    reply = reply_frame(head.correlation_id, encode_commit_response(zeros, zeros, zeros, zeros, [is_duplicate] * count))
                    for at in range(0, len(reply), 7 if answered < 5 else len(reply)):
                        peer.sendall(reply[at : at + (7 if answered < 5 else len(reply))])
                    answered += 1
                    if answered == answers_max:
                        return

    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        yield Target(host="127.0.0.1", port=listener.getsockname()[1], coordinator_id=0, partition_keys=KEYS)
    thread.join(60)
    assert not thread.is_alive()


def run(target: Target, *, window_s: float = 0.3, **options: float) -> Measured:
    shape = Shape(batches_per_file=4, partitions=3)
    return run_load(Load(shape=shape, targets=[target], warm_up_s=0.05, window_s=window_s, **options))  # type: ignore[arg-type]


def counted(options: Mapping[str, float], *, is_duplicate: bool = False) -> tuple[Measured, float]:
    """What is measured, and how long that took (s); again when this process stood still for the whole window."""
    for _ in range(20):
        with node(is_duplicate=is_duplicate) as target:
            started_s = time.perf_counter()
            measured = run(target, **options)
            took_s = time.perf_counter() - started_s
        if measured.requests:
            return measured, took_s
    raise AssertionError("nothing was counted in 20 windows")


def test_a_closed_loop_counts_what_is_answered_in_the_window() -> None:
    measured, _ = counted({"depth": 3})
    assert measured.batches == 4 * measured.requests == 4 * len(measured.latencies_s)
    assert (measured.errors, measured.duplicates) == (0, 0)
    assert 0 < measured.percentile_ms(0.5) <= measured.percentile_ms(1)


def test_an_open_loop_sends_at_its_rate_whatever_is_answered() -> None:
    measured, took_s = counted({"rate": 400})
    # As many as the answers allow would be thousands. A Poisson process exceeds its mean by so much less than once in a million times.
    assert measured.requests <= 1.5 * 400 * took_s


def test_duplicates_are_counted() -> None:
    measured, _ = counted({"depth": 1}, is_duplicate=True)
    assert measured.duplicates == measured.batches > 0


def test_a_node_that_hangs_up_ends_the_run() -> None:
    with node(answers_max=10) as target, pytest.raises(ConnectionError):
        run(target, depth=2, window_s=20)
