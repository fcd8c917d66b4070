"""The command: `python -m integration_tests.faults --minutes 5 --seed 1 --report FOLDER`.

Exit status 0: no violation; 1: at least one; 2: the run could not be carried out. Makes namespaces where it may, then runs
itself once more inside the clients' one; the outer process deletes them whatever becomes of the inner one.
"""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import FrameType

from cli.dev import die_with_parent
from cli.dev.kafka import find_runtime
from cli.dev.process import end_all_children, reap_leftovers
from integration_tests.checker import check
from integration_tests.faults import clock, refusing_disk
from integration_tests.faults.actions import ACTIONS, Needs
from integration_tests.faults.client_checker import check_clients
from integration_tests.faults.client_history import read_client_history
from integration_tests.faults.disks import NoMounts, private_prefix
from integration_tests.faults.network import MODULE, Network, NoNetwork, delete_leftovers
from integration_tests.faults.preload import NoPreload
from integration_tests.faults.report import write_report
from integration_tests.faults.run import CLIENTS_FILE, HISTORY_FILE, Result, Settings, run
from integration_tests.faults.topology import CLIENTS, HOSTS, Machine
from integration_tests.recording import read_recording

log = logging.getLogger(__name__)

CANNOT_RUN = 2


def parse(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=(__doc__ or "").split("\n")[0])
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--minutes", type=float, default=5.0, help="how long faults go on (default: 5)")
    length.add_argument("--once", action="store_true", help="every action once, as briskly as it goes, instead of --minutes")
    parser.add_argument("--seed", type=int, default=1, help="what happens to whom, and what the clients send")
    parser.add_argument(
        "--actions",
        default="all",
        help="names separated by commas, one that is named twice comes twice as often, or `all`; `list` prints them",
    )
    parser.add_argument("--report", type=Path, help="folder for report.md, report.json, history and logs; its content is replaced")
    parser.add_argument(
        "--quick-brokers", action="store_true", help="brokers that miss each other after 3 to 6 s instead of Kafka's 9 to 30 s"
    )
    parser.add_argument("--together", type=int, default=3, help="how many faults at most at the same time (default: 3)")
    parser.add_argument(
        "--gateways",
        action="store_true",
        help="Java, librdkafka and franz-go work through gateways, which are hit too, instead of clients at the nodes; on loopback",
    )
    parser.add_argument("--no-namespaces", action="store_true", help="everything on loopback, no faults of the network")
    parser.add_argument("--recheck", type=Path, metavar="FOLDER", help="judge the history of an earlier run again, and do nothing else")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    parser.add_argument("--mounts", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Return the exit status."""
    options = parse(arguments)
    if options.actions == "list":
        for action in ACTIONS.values():
            print(f"{action.name:16} {action.text} (needs: {action.needs.value})")
        return 0
    unknown = sorted(set(_names(options)) - set(ACTIONS))
    if unknown:
        print(f"unknown actions {', '.join(unknown)}; `--actions list` prints those there are", file=sys.stderr)
        return CANNOT_RUN
    if options.recheck is not None:
        return recheck(options.recheck)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    if options.gateways and shutil.which("versitygw") is None:
        print("a run with gateways needs versitygw, as its object store, on the PATH", file=sys.stderr)
        return CANNOT_RUN
    if options.inside is not None or options.no_namespaces or options.gateways:
        return run_here(options, None)
    return run_in_namespaces(options, arguments)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _names(options: argparse.Namespace) -> list[str]:
    return list(ACTIONS) if options.actions == "all" else [name for name in options.actions.split(",") if name]


def run_in_namespaces(options: argparse.Namespace, arguments: list[str]) -> int:
    """Make the network, run this command again within it, and delete it; without namespaces, run on loopback."""
    reap_leftovers()
    for name in delete_leftovers():
        print(f"deleted namespace {name} of an earlier run", file=sys.stderr)
    find_runtime()  # may fetch and train, for which the clients' namespace has no way out
    network = Network(os.getpid(), HOSTS)
    try:
        try:
            network.create()
        except NoNetwork as reason:
            print(f"no namespaces: {reason}", file=sys.stderr)
            return run_here(options, str(reason))
        inside = [sys.executable, "-m", MODULE, *arguments, "--inside", str(os.getpid())]
        try:
            inside = [*private_prefix(), *inside, "--mounts"]
        except NoMounts as reason:
            print(f"no mounts: {reason}", file=sys.stderr)
        command = [*network.hosts[CLIENTS].place.command_prefix, *inside]
        # Of its own session, so that Ctrl-C comes once, from here; it dies with this process, however that ends.
        inner = subprocess.Popen([sys.executable, "-I", "-S", die_with_parent.__file__, str(os.getpid()), *command], start_new_session=True)
        try:
            return inner.wait()
        finally:
            inner.terminate()
            inner.wait()
    finally:
        delete_leftovers_of(network)


def delete_leftovers_of(network: Network) -> None:
    """Delete the namespaces; where they were not possible there is nothing."""
    try:
        network.delete()
    except NoNetwork as problem:
        print(f"namespaces could not be deleted: {problem}", file=sys.stderr)


def run_here(options: argparse.Namespace, why_no_network: str | None) -> int:
    """Run in this process."""
    folder = prepare_folder(options.report)
    missing: list[str] = []
    network: Network | None = None
    if options.inside is not None:
        network = Network(int(options.inside), HOSTS)
    else:
        missing.append(f"faults of the network ({why_no_network or 'not wanted'})")
    clock_library = disk_library = None
    try:
        clock_library = clock.build_library(folder / "work")
        disk_library = refusing_disk.build_library(folder / "work")
    except NoPreload as reason:
        missing.append(f"clock jumps and disks that refuse ({reason})")
    if not options.mounts:
        missing.append("full disks (mounts of our own need root and util-linux)")
    machine = Machine(
        network=network,
        clock_library=clock_library,
        disk_library=disk_library,
        has_mounts=options.mounts,
        missing=tuple(missing),
    )
    possible = {
        Needs.NOTHING: True,
        Needs.NETWORK: network is not None,
        Needs.CLOCK: clock_library is not None,
        Needs.DISK: disk_library is not None,
        Needs.MOUNT: options.mounts,
        Needs.GATEWAYS: options.gateways,
        Needs.OWN_CLIENTS: not options.gateways,
    }
    settings = Settings(
        actions=tuple(name for name in _names(options) if possible[ACTIONS[name].needs]),
        seed=options.seed,
        minutes=None if options.once else options.minutes,
        together_max=max(1, options.together),
        quick_brokers=options.quick_brokers,
        folder=folder,
        has_gateways=options.gateways,
    )
    if not settings.actions:
        print(f"none of these actions is possible here: {'; '.join(missing)}", file=sys.stderr)
        return CANNOT_RUN
    result = Result(settings=settings, machine=machine)
    try:
        run(result, lambda text: print(text, flush=True))
    except Exception:
        log.exception("the run failed by itself")
    finally:
        end_all_children()
        write_report(result)
    for text in result.violations[:20]:
        print(f"VIOLATION {text}")
    print(f"{len(result.violations)} violations; see {folder / 'report.md'}")
    if result.broken_off is not None:
        print(f"broken off: {result.broken_off}", file=sys.stderr)
    return 1 if result.violations else 0 if result.broken_off is None else CANNOT_RUN


def prepare_folder(wanted: Path | None) -> Path:
    """Make the report's folder. An earlier report in it goes; what is not of this command stays."""
    if wanted is None:
        return Path(tempfile.mkdtemp(prefix="diskless-faults-"))
    wanted.mkdir(parents=True, exist_ok=True)
    for name in ("work", "logs"):
        shutil.rmtree(wanted / name, ignore_errors=True)
    for name in ("report.md", "report.json", HISTORY_FILE, CLIENTS_FILE):
        (wanted / name).unlink(missing_ok=True)
    return wanted.resolve()


def recheck(folder: Path) -> int:
    """Judge a recorded history again."""
    problems: list[str] | None = None
    if (folder / CLIENTS_FILE).exists():
        clients = read_client_history(folder / CLIENTS_FILE)
        problems = check_clients(clients) if clients.is_whole else None
    else:
        history, final = read_recording(folder / HISTORY_FILE)
        problems = None if final is None else check(history, final)
    if problems is None:
        print("the run came to no end: there is nothing to compare its history with", file=sys.stderr)
        return CANNOT_RUN
    for text in problems:
        print(f"VIOLATION {text}")
    print(f"{len(problems)} violations")
    return 1 if problems else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
