"""A network of namespaces: one per host, each with one address, all on one switch, and rules that cut, lose or reset.

Nothing of it is in the machine's own namespace. Everything bears a name that begins with `dfr<pid>-`, pid being the
process that made it and will delete it; `delete_leftovers` deletes what dead processes left.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from cli.dev.place import Place
from cli.dev.process import command_line

MODULE: Final = "integration_tests.faults"
NAME: Final = re.compile(r"^dfr(\d+)-")
SUBNET: Final = "10.231.0"
COMMAND_TIMEOUT_S: Final = 20

Rule = tuple[str, ...]
"""The words of an iptables rule behind the chain's command, the chain first: ("INPUT", "-s", ...)."""


class NoNetwork(Exception):
    """Namespaces are not possible on this machine; the text says why and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A namespace with one address."""

    namespace: str
    address: str

    @property
    def place(self) -> Place:
        """Where a process of this host runs."""
        return Place(host=self.address, command_prefix=(_program("nsenter"), f"--net=/run/netns/{self.namespace}"))


def _program(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin:/usr/bin:/bin")
    if found is None:
        raise NoNetwork(f"there is no program {name}: install {'util-linux' if name == 'nsenter' else 'iproute2 and iptables'}")
    return found


def _run(*command: str) -> str:
    done = subprocess.run([_program(command[0]), *command[1:]], capture_output=True, text=True, check=False, timeout=COMMAND_TIMEOUT_S)
    if done.returncode != 0:
        raise NoNetwork(f"`{' '.join(command)}` failed: {(done.stderr or done.stdout).strip()[-300:]}")
    return done.stdout


class Network:
    """Made by `create_network`; `hosts` maps names to hosts."""

    def __init__(self, owner_pid: int, names: Sequence[str]) -> None:
        self._prefix = f"dfr{owner_pid}-"
        self.hosts = {name: Host(namespace=self._prefix + name, address=f"{SUBNET}.{number}") for number, name in enumerate(names, start=1)}

    def create(self) -> None:
        """Make namespaces, switch and cables. Raises `NoNetwork`; what was made is left to `delete`."""
        if os.geteuid() != 0:
            raise NoNetwork("network namespaces need root")
        switch = self._prefix + "switch"
        for namespace in (switch, *(host.namespace for host in self.hosts.values())):
            _run("ip", "netns", "add", namespace)
            _run("ip", "-n", namespace, "link", "set", "lo", "up")
        _run("ip", "-n", switch, "link", "add", "br0", "type", "bridge")
        _run("ip", "-n", switch, "link", "set", "br0", "up")
        for name, host in self.hosts.items():
            _run("ip", "link", "add", "eth0", "netns", host.namespace, "type", "veth", "peer", "name", name, "netns", switch)
            _run("ip", "-n", switch, "link", "set", name, "master", "br0", "up")
            _run("ip", "-n", host.namespace, "addr", "add", f"{host.address}/24", "dev", "eth0")
            _run("ip", "-n", host.namespace, "link", "set", "eth0", "up")
        for host in self.hosts.values():
            self._change(host, "-A", ("INPUT", "-m", "statistic", "--mode", "random", "--probability", "0.5", "-j", "DROP"))
            self._change(host, "-F", ("INPUT",))

    def delete(self) -> None:
        """Delete everything, also what `create` left when it failed."""
        delete_namespaces(self._prefix)

    @contextmanager
    def rules(self, host_name: str, rules: Iterable[Rule]) -> Iterator[None]:
        """Have some rules in force on a host."""
        host, in_force = self.hosts[host_name], list[Rule]()
        try:
            for rule in rules:
                self._change(host, "-A", rule)
                in_force.append(rule)
            yield
        finally:
            for rule in in_force:
                self._change(host, "-D", rule)

    def _change(self, host: Host, how: str, rule: Rule) -> None:
        _run("nsenter", f"--net=/run/netns/{host.namespace}", _program("iptables"), "-w", how, *rule)

    # ---- rules

    def cut(self, others: Iterable[str], *, to_them: bool = True, from_them: bool = True) -> list[Rule]:
        """Drop everything to and from some hosts, or only one direction."""
        rules: list[Rule] = []
        for name in others:
            address = self.hosts[name].address
            if from_them:
                rules.append(("INPUT", "-s", address, "-j", "DROP"))
            if to_them:
                rules.append(("OUTPUT", "-d", address, "-j", "DROP"))
        return rules

    def cut_port(self, other: str, port: int) -> list[Rule]:
        """Drop everything between a host and one port of the host with the rules."""
        address = self.hosts[other].address
        return [
            ("INPUT", "-s", address, "-p", "tcp", "--dport", str(port), "-j", "DROP"),
            ("OUTPUT", "-d", address, "-p", "tcp", "--sport", str(port), "-j", "DROP"),
        ]

    @staticmethod
    def lose(part: float) -> list[Rule]:
        """Lose a part (0 to 1) of the packets that come in."""
        return [("INPUT", "-p", "tcp", "-m", "statistic", "--mode", "random", "--probability", f"{part:g}", "-j", "DROP")]

    @staticmethod
    def reset() -> list[Rule]:
        """Answer every packet of TCP that comes in with a reset."""
        return [("INPUT", "-p", "tcp", "-j", "REJECT", "--reject-with", "tcp-reset")]


def delete_leftovers() -> list[str]:
    """Delete what processes of this module that are gone have left; returns the namespaces' names."""
    try:
        names = _run("ip", "netns", "list").splitlines()
    except NoNetwork:
        return []  # a machine without the programs has nothing left by them
    prefixes = {found.group(0) for name in names if (found := NAME.match(name)) and MODULE not in command_line(int(found.group(1)))}
    return [name for prefix in sorted(prefixes) for name in delete_namespaces(prefix)]


def delete_namespaces(prefix: str) -> list[str]:
    """Delete all namespaces whose names begin so."""
    names = [line.split()[0] for line in _run("ip", "netns", "list").splitlines() if line.startswith(prefix)]
    for name in names:
        _run("ip", "netns", "del", name)
    return names
