"""Faults of processes: nodes and brokers that are killed, stopped and frozen, and connections that say nothing."""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from random import Random
from typing import Final

from integration_tests.faults.catalogue import STOP_TIMEOUT_S, Hits, Say, action, leads, revive
from integration_tests.faults.topology import Topology

KAFKA_RETURN_S: Final = 90.0
STORM_CONNECTIONS: Final = 300
STORM_STEP_S: Final = 0.002


@action("kill", "SIGKILL of a node, started again", hits=Hits.NODE, lasts_s=(1, 9))
def kill(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    say(leads(topology, target))
    topology.node(target).kill()
    try:
        yield
    finally:
        topology.node(target).start()


@action("stop", "clean stop (SIGTERM) of a node, started again", hits=Hits.NODE, lasts_s=(1, 5))
def stop(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    say(leads(topology, target))
    start_s = time.monotonic()
    try:
        status = topology.node(target).terminate(STOP_TIMEOUT_S)
        say(f"ended with status {status} after {time.monotonic() - start_s:.2f} s")
        if status != 0:
            raise AssertionError(f"{target} ended with status {status} when it was asked to stop")
        yield
    finally:
        topology.node(target).kill()
        topology.node(target).start()


@action("disk_loss", "SIGKILL of a node, which comes back without its state databases", hits=Hits.NODE, lasts_s=(0.5, 3))
def disk_loss(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    node = topology.node(target)
    say(leads(topology, target))
    node.kill()
    try:
        if rng.random() < 0.5:
            shutil.rmtree(node.data_folder, ignore_errors=True)
            say("lost its whole data directory")
        else:
            lost = [file for file in sorted(node.data_folder.rglob("*.db*")) if rng.random() < 0.5]
            for file in lost:
                file.unlink()
            say(f"lost {len(lost)} files")
        yield
    finally:
        node.start()


@action("pause", "SIGSTOP of a node for longer than its session, SIGCONT", hits=Hits.NODE, lasts_s=(7, 10))
def pause(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    say(leads(topology, target))
    topology.node(target).pause()
    try:
        yield
    finally:
        topology.node(target).resume()


@action("short_pause", "SIGSTOP of a node for less than its session, SIGCONT", hits=Hits.NODE, lasts_s=(0.5, 4))
def short_pause(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    topology.node(target).pause()
    try:
        yield
    finally:
        topology.node(target).resume()


@action("stutter", "SIGSTOP and SIGCONT of a node in quick turns", hits=Hits.NODE, lasts_s=(1, 2))
def stutter(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    turns = rng.randint(10, 40)
    say(f"{turns} turns")
    for _ in range(turns):
        topology.node(target).pause()
        time.sleep(rng.uniform(0.005, 0.1))  # the fault itself
        topology.node(target).resume()
        time.sleep(rng.uniform(0.005, 0.05))
    yield


@action("broker_kill", "SIGKILL of a broker, started again", hits=Hits.BROKER, lasts_s=(1, 10))
def broker_kill(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    topology.kafka.kill(topology.broker_number(target))
    try:
        yield
    finally:
        topology.kafka.restart(topology.broker_number(target), KAFKA_RETURN_S)


@action("broker_stop", "clean stop of a broker, started again", hits=Hits.BROKER, lasts_s=(1, 4))
def broker_stop(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    topology.kafka.terminate(topology.broker_number(target), STOP_TIMEOUT_S)
    try:
        yield
    finally:
        topology.kafka.restart(topology.broker_number(target), KAFKA_RETURN_S)


@action("broker_pause", "SIGSTOP of a broker, SIGCONT", hits=Hits.BROKER, lasts_s=(2, 12))
def broker_pause(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    topology.kafka.pause(topology.broker_number(target))
    try:
        yield
    finally:
        topology.kafka.resume(topology.broker_number(target))


@action("double", "a second process with the node.id of a running one, for a while", hits=Hits.NODE, lasts_s=(3, 10))
def double(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    """One of the two may refuse to go on; it says why."""
    node, twin = topology.node(target), topology.twin(target)
    say(leads(topology, target))
    try:
        twin.start()
        yield
        for name, one in (("the first", node), ("the second", twin)):
            status = None if one.process is None else one.process.exit_status()
            if status is not None:
                say(f"{name} ended with status {status}: {one.log_tail(1)}")
                assert "node.id" in one.log_text(), f"{name} of {target} does not say that its node.id is taken:\n{one.log_tail()}"
    finally:
        twin.close()
        revive(topology, target, say)


@action("storm", "hundreds of connections to a node that say nothing, half a frame or nonsense", hits=Hits.NODE, lasts_s=(1, 4))
def storm(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    host, _, port = topology.node(target).address.rpartition(":")
    refused = 0
    with ExitStack() as opened:
        for number in range(STORM_CONNECTIONS):
            try:
                connection = opened.enter_context(socket.create_connection((host, int(port)), timeout=1))
                connection.setblocking(False)
                connection.send((b"", b"\0\0\1", rng.randbytes(64))[number % 3])
            except OSError:
                refused += 1
            time.sleep(STORM_STEP_S)
        say(f"{STORM_CONNECTIONS} connections, {refused} refused or cut")
        yield
