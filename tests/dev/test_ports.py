"""Ports: never two leases of one, never one in use, and outside the range the kernel hands out by itself."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from cli.dev.ports import HIGHEST_PORT, LOWEST_PORT, NoPortError, lease_port, lease_ports, port_range


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISKLESS_CACHE_DIR", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("kernel_range", "expected"),
    [
        (None, (LOWEST_PORT, HIGHEST_PORT)),
        ("32768\t60999\n", (LOWEST_PORT, 32767)),
        ("20000 60999", (LOWEST_PORT, 19999)),
        ("1024 60999", (61000, 65535)),
        ("1024 65535", (LOWEST_PORT, HIGHEST_PORT)),
    ],
)
def test_range_avoids_what_the_kernel_hands_out(kernel_range: str | None, expected: tuple[int, int]) -> None:
    assert port_range(kernel_range) == expected


def test_leased_ports_are_different_and_can_be_bound() -> None:
    leases = lease_ports(20)
    assert len({lease.port for lease in leases}) == 20
    for lease in leases:
        with socket.socket() as server:
            server.bind(("127.0.0.1", lease.port))
        lease.close()


def test_a_leased_port_is_not_leased_again_until_closed() -> None:
    (first,) = lease_ports(1)
    with pytest.raises(NoPortError, match=f"port {first.port} .* in use"):
        lease_port(first.port)
    first.close()
    lease_port(first.port).close()


def test_a_preferred_port_is_taken_when_free_and_replaced_when_not() -> None:
    (first,) = lease_ports(1)
    (other,) = lease_ports(1, preferred=[first.port])
    assert other.port != first.port
    first.close()
    (again,) = lease_ports(1, preferred=[first.port])
    assert again.port == first.port
    other.close()
    again.close()


def test_a_port_somebody_listens_on_is_refused() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        with pytest.raises(NoPortError, match="stop what listens there"):
            lease_port(server.getsockname()[1])
