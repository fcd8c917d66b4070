"""Hostile arguments for every command of `diskless`: how each is run up to the point where it would do its work, and what is put
in the place of its options and arguments, by manner.

A command without a line in `BASES` fails the test of the table, so that a new one gets its rows.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from cli.lazy import LazyGroup
from cli.main import root

REFUSED = "127.0.0.1:1"
"""No service of a machine listens there."""
NOT_HERE = "192.0.2.1"
"""An address for documentation: no host has it, so nobody can listen there."""

Path_ = tuple[str, ...]

BOUND_S = 20.0
"""Less than a command waits that was told nothing of time, and much more than the 0.2 s that those in `BASES` are told."""
WAIT = ("--timeout", "0.2")
NODE = ("--bootstrap-server", REFUSED, *WAIT)
KAFKA = ("--kafka-bootstrap-server", REFUSED)

BASES: dict[Path_, tuple[str, ...]] = {
    ("init",): ("--bootstrap-server", REFUSED, *WAIT),
    ("coordinator", "describe"): ("0", *NODE),
    ("coordinator", "drain"): ("1", *NODE),
    ("coordinator", "grow"): ("16", "--yes", *KAFKA, *NODE),
    ("coordinator", "level"): NODE,
    ("coordinator", "list"): NODE,
    ("coordinator", "raise-level"): ("2", "--yes", *NODE),
    ("coordinator", "rebalance"): (*KAFKA, *NODE),
    ("coordinator", "run"): ("--config", "node.properties"),
    ("coordinator", "status"): NODE,
    ("coordinator", "undrain"): ("1", *NODE),
    ("coordinator", "why"): (*KAFKA, *WAIT),
    ("topics", "alter"): ("orders", "--partitions", "2", "--config", "retention.ms=1", "--delete-config", "retention.bytes", *NODE),
    ("topics", "create"): ("orders", "--partitions", "2", "--config", "retention.ms=1", *NODE),
    ("topics", "delete"): ("orders", "--yes", *NODE),
    ("topics", "describe"): ("orders", *NODE),
    ("topics", "list"): NODE,
    ("files", "commit"): ("orders.wal", "--object-store-url", "file://{here}/objects", *NODE),
    ("files", "describe"): ("wal/01JD0000000000000000000000", *NODE),
    ("files", "list"): NODE,
    ("files", "pack"): ("--out", "new.wal"),
    ("gateway", "run"): ("--config", "gateway.properties"),
    ("gateways", "describe"): ("1001", *KAFKA, *WAIT),
    ("gateways", "list"): (*KAFKA, *WAIT),
    ("gateways", "plan"): NODE,
    ("offsets", "list"): ("orders", *NODE),
    ("batches", "find"): ("orders", "0", "--offset", "0", *NODE),
    ("groups", "lag"): ("readers", *KAFKA, *NODE),
    ("producers", "list"): ("orders", *NODE),
    ("partitions", "move"): ("orders:0", "--to", "1", *NODE),
    ("partitions", "moves"): NODE,
    ("topics", "usage"): ("orders", *NODE),
    ("topics", "files"): ("orders", *NODE),
    ("records", "tail"): ("orders", "--object-store-url", "file://{here}/objects", *NODE),
    ("records", "delete"): ("orders", "0", "--before-offset", "1", "--yes", *NODE),
    ("tables", "export"): ("orders", "--to", "delta:table", "--once", "--object-store-url", "file://{here}/objects", *NODE),
    ("tables", "status"): ("orders", "--to", "delta:table", *NODE),
    ("migration", "start"): ("orders", "--writers-stopped", "--still", "0.1", "--yes", *KAFKA, *NODE),
    ("migration", "abort"): ("orders", "--yes", *KAFKA, *NODE),
    ("migration", "verify"): ("orders", "--object-store-url", "file://{here}/objects", *KAFKA, *NODE),
    ("doctor",): ("--bootstrap-server", REFUSED, *KAFKA, *WAIT),
    ("log", "dump"): ("--bootstrap-server", REFUSED, *WAIT),
    ("log", "explain"): ("0@1", "--bootstrap-server", REFUSED, *WAIT),
    ("log", "prune"): ("--dry-run", *NODE),
    ("migration", "state"): ("orders", *NODE),
    ("migration", "init"): ("orders", "0", "--start-offset", "9", "--prefix-start", "0", "--yes", *NODE),
    ("migration", "reset"): ("orders", "0", "--yes", *NODE),
    ("migration", "repair"): ("orders", "0", "--start-offset", "8", "--yes", *NODE),
    ("retention", "enforce"): ("orders", *NODE),
    ("snapshots", "take"): NODE,
    ("snapshots", "list"): NODE,
    ("snapshots", "describe"): ("0", *NODE),
    ("snapshots", "verify"): ("state.db",),
    ("snapshots", "download"): ("--coordinator", "0", "--to", "new.checkpoint", "--object-store-url", "file://{here}/objects", *NODE),
    ("orphans", "scan"): NODE,
    ("orphans", "status"): NODE,
    ("restore", "start"): ("--object-store-url", "file://{here}/objects", *KAFKA, *WAIT),
    ("restore", "report"): ("--object-store-url", "file://{here}/objects", *NODE),
    ("restore", "finish"): NODE,
    ("users", "add"): ("alice", "--file", "users", "--password-stdin"),
    ("users", "remove"): ("alice", "--file", "users"),
    ("users", "list"): ("--file", "users"),
    ("storage", "format"): ("--cluster-id", "c", "--config", "node.properties", "--property", "data.dirs=binary/below"),
    ("storage", "info"): ("--config", "node.properties"),
    ("storage", "random-uuid"): (),
    ("dirs", "list"): NODE,
    ("dirs", "move"): ("0", "--node", "1", "--to", "data", *NODE),
    ("db", "copy"): ("state.db", "copy.db"),
    ("db", "digest"): ("state.db",),
    ("db", "dump"): ("state.db",),
    ("db", "sql"): ("state.db", "SELECT 1"),
    ("bench",): ("--bootstrap-server", REFUSED, *KAFKA),
    ("monitor", "run"): ("--bootstrap-server", REFUSED, "--dir", "monitor"),
    ("monitor", "fetch"): (),
    ("monitor", "status"): ("--dir", "monitor"),
    ("monitor", "findings", "list"): ("--dir", "monitor"),
    ("monitor", "findings", "ack"): ("1", "--dir", "monitor", "--reason", "known"),
    ("monitor", "findings", "unack"): ("1", "--dir", "monitor", "--reason", "again"),
    ("monitor", "quarantine"): ("--dir", "monitor"),
    ("monitor", "verify"): ("--bootstrap-server", REFUSED, *KAFKA, *WAIT),
    ("monitor", "archive"): ("--to", "archive", *KAFKA),
    ("dashboard",): ("--dir", "monitor", "--listen", f"{NOT_HERE}:9180"),
    ("simulate",): ("--without", "help"),
    ("config", "show"): ("--config", "node.properties"),
    ("config", "validate"): ("--config", "node.properties"),
    ("dev", "down"): (),
    ("dev", "up"): ("--no-demo", "--no-monitor", "--no-dashboard"),
    ("completion",): ("bash",),
}

PROPERTIES = f"""
node.id=1
bootstrap.servers={REFUSED}
listeners=PLAINTEXT://{NOT_HERE}:9192
http.listener={NOT_HERE}:9193
data.dirs=data
object.store.url=file:///objects
kafka.socket.timeout.ms=soon
"""
"""Settings of a node that cannot start."""


def leaves(command: click.Command = root, path: Path_ = ()) -> Iterator[tuple[Path_, click.Command]]:
    """Every command that does something, by its words."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    for name in command.list_commands(click.Context(command)):
        child = command.lazy[name].load() if isinstance(command, LazyGroup) and name in command.lazy else command.commands[name]
        yield from leaves(child, (*path, name))


GATEWAY_PROPERTIES = (
    f"gateway.node.id=1001\nbootstrap.servers={REFUSED}\ncoordinator.bootstrap.servers={REFUSED}\n"
    "listeners=PLAINTEXT://binary:9292\nhttp.listener=\nobject.store.url=file:///nowhere/at/all\n"
)
"""The store is missing: the gateway ends before it waits for Kafka."""
LEAVES = dict(leaves())


def make_files(here: Path) -> None:
    """Put into a folder what the bases name, and what hostile values name."""
    (here / "node.properties").write_text(PROPERTIES)
    (here / "gateway.properties").write_text(GATEWAY_PROPERTIES)
    (here / "objects").mkdir()
    (here / "a-folder").mkdir()
    (here / "binary").write_bytes(bytes(range(256)) * 64)
    (here / "broken.json").write_text('{"topic": ')
    (here / "unreadable").symlink_to("/proc/self/mem")  # also for root: reading at its beginning is an error
    (here / "looped").symlink_to(here / "looped")
    (here / "state.db").write_bytes(b"no database\n" * 1000)


@dataclass(frozen=True, slots=True)
class Manner:
    """A way to be wrong: what stands in for the value of a parameter, for those of which it is asked."""

    name: str
    values: tuple[str, ...]
    fits: Callable[[click.Parameter], bool]
    is_usage: bool = False
    """Whether status 2 is the only right answer."""
    is_each: bool = False
    """Whether each value is tried with each parameter; else one of them, which takes less time."""


def _is_number(parameter: click.Parameter) -> bool:
    return isinstance(parameter.type, click.types.IntParamType | click.types.FloatParamType)


def _is_whole(parameter: click.Parameter) -> bool:
    return isinstance(parameter.type, click.types.IntParamType) and parameter.name != "seed"


def _is_float(parameter: click.Parameter) -> bool:
    return isinstance(parameter.type, click.types.FloatParamType)


def _is_path(parameter: click.Parameter) -> bool:
    return isinstance(parameter.type, click.Path) or parameter.name in ("to", "inventory_path")


def _is_text(parameter: click.Parameter) -> bool:
    return not _is_number(parameter) and not isinstance(parameter.type, click.Choice) and not _is_flag(parameter)


def _is_flag(parameter: click.Parameter) -> bool:
    return isinstance(parameter, click.Option) and parameter.is_flag


def _is_address(parameter: click.Parameter) -> bool:
    return parameter.name in ("bootstrap_server", "kafka_server", "kafka_bootstrap_server", "listen", "coordinators")


def _is_asked(parameter: click.Parameter) -> bool:
    """An address that a command connects to; listening there is lawful, also at port 1 for those who may."""
    return _is_address(parameter) and parameter.name != "listen"


def _takes_value(parameter: click.Parameter) -> bool:
    return not _is_flag(parameter)


MANNERS = (
    Manner("empty", ("",), _takes_value),
    Manner("wrong-type", ("x", "1.5.2", "0x10"), _is_number, is_usage=True),
    Manner("no-choice", ("nonsense", "TABLE;"), lambda one: isinstance(one.type, click.Choice), is_usage=True),
    Manner("negative", ("-9", "-9223372036854775809"), _is_number, is_usage=True),
    Manner("huge", ("9223372036854775808", "1" + "0" * 400), _is_whole, is_usage=True),
    Manner("no-number", ("nan", "inf", "-inf", "1e400"), _is_float, is_usage=True),
    Manner("control-characters", ("a\x1b[31mb\x07", "a\nb\rc", "\t"), _is_text),
    Manner("unicode", ("\u00fc\u20ac\U0001f600", "a\u202eb", "\ufeff"), _is_text),
    Manner("very-long", ("a" * 100_000,), _is_text),
    Manner("folder", ("a-folder", "/"), _is_path),
    Manner("missing-file", ("nowhere", "nowhere/below"), _is_path),
    Manner("below-a-file", ("binary/below",), _is_path),
    Manner("binary", ("binary", "broken.json"), _is_path),
    Manner("device", ("/dev/full", "/dev/null", "/dev/zero"), _is_path, is_each=True),
    Manner("unreadable", ("unreadable", "looped"), _is_path),
    Manner("no-address", ("host", "host:x", "host:99999", ",", "[::1", "[:1", "http://127.0.0.1:1/", "a b:1"), _is_address, is_each=True),
    Manner("refused-port", (REFUSED, "[::1]:1", ":1"), _is_asked),
    Manner("assignment", ("=", "=x", "novalue", "a.b=\u00fc"), lambda one: (one.metavar or "").startswith("KEY=")),
)
MISSING = "missing"


def command_lines(path: Path_, manner: Manner, here: Path) -> Iterator[list[str]]:
    """Every command line of a command that is wrong in a manner, one parameter at a time."""
    command = LEAVES[path]
    # Kafka's client waits where nobody answers, and what it would be asked is not what these lines are about: they end before it.
    stop = ["--command-property=sasl.jaas.config=x"] if any(one.name == "command_properties" for one in command.params) else []
    for parameter in command.params:
        if manner.fits(parameter):
            # The commands share their options, so that also one value of several comes up with many of them.
            chosen = zlib.crc32(f"{path} {parameter.name}".encode()) % len(manner.values)
            for value in manner.values if manner.is_each else manner.values[chosen : chosen + 1]:
                yield [*path, *with_value(command, [*base(path, here), *stop], parameter, value)]


def base(path: Path_, here: Path) -> list[str]:
    """The words of a command's line in `BASES`."""
    return [word.format(here=here) for word in BASES[path]]


def with_value(command: click.Command, words: Sequence[str], parameter: click.Parameter, value: str) -> list[str]:
    """The words with a value for one parameter; one that is given already is replaced."""
    if isinstance(parameter, click.Option):
        words = without(words, parameter)
        flag = parameter.opts[-1]
        return [*words, f"{flag}={value}" if flag.startswith("--") else f"{flag}{value}"]
    place = positional(command).index(parameter)
    positions = positional_words(words)
    given = [*positions[:place], value, *positions[place + 1 :]]
    return [*words[len(positions) :], "--", *given]


def without(words: Sequence[str], parameter: click.Parameter) -> list[str]:
    """The words without an option and its value, or, for an argument, without its word."""
    if not isinstance(parameter, click.Option):
        return list(words)
    kept: list[str] = []
    names = {*parameter.opts, *parameter.secondary_opts}
    skip = 0
    for word in words:
        if skip:
            skip -= 1
        elif word in names:
            skip = 0 if _is_flag(parameter) else 1
        else:
            kept.append(word)
    return kept


def positional(command: click.Command) -> list[click.Parameter]:
    """The arguments of a command, in order."""
    return [one for one in command.params if isinstance(one, click.Argument)]


def positional_words(words: Sequence[str]) -> list[str]:
    """The words before the first option; the bases put arguments first."""
    found: list[str] = []
    for word in words:
        if word.startswith("-"):
            break
        found.append(word)
    return found


def children() -> set[int]:
    """The processes that this one started and that are there, zombies included."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        try:
            found |= {int(pid) for pid in (task / "children").read_text().split()}
        except FileNotFoundError:
            continue  # a thread that ended just now
    return found


def files_below(folder: Path) -> set[str]:
    """Every file and folder, by its path below."""
    return {os.path.relpath(os.path.join(place, name), folder) for place, folders, names in os.walk(folder) for name in [*folders, *names]}
