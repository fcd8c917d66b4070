"""The text that `diskless dev up` prints when it is ready: addresses, and commands to copy into another terminal.

Owns text only. Invariant: every command works as printed (a test runs them).
"""

from __future__ import annotations

import shlex
from pathlib import Path

from cli.dev.dashboard import DevDashboard
from cli.dev.demo import ORDERS
from cli.dev.dev_gateway import DevGateway
from cli.dev.local_service import LocalService
from cli.dev.monitor import DevMonitor

COMMAND_MARK = "  $ "
MINE = "first"
SQL = "SELECT object_key, batch_count, live_batches FROM file ORDER BY object_key DESC LIMIT 5"


def guide(
    service: LocalService,
    gateway: DevGateway | None,
    monitor: DevMonitor | None,
    dashboard: DevDashboard | None,
    *,
    demo: bool,
    temporary: bool,
    took_s: float,
) -> str:
    """Write the whole text."""
    folder = f"{service.folder}" + (" (temporary: deleted at the end)" if temporary else "")
    lines = [
        f"ready in {took_s:.1f} s",
        "",
        f"  Kafka          {service.kafka.bootstrap}   log {service.kafka.node(1).log_file}",
    ]
    for process in service.processes:
        assert process.process is not None
        lines.append(
            f"  node {process.node_id}         {process.address}   {process.http}   pid {process.process.pid}   log {process.log_file}"
        )
    if gateway is not None:
        lines.append(f"  gateway        {gateway.address}   {gateway.http}   pid {gateway.pid}   log {gateway.log_file}")
    if monitor is not None:
        lines.append(f"  monitor        {monitor.metrics}   pid {monitor.pid}   log {monitor.log_file}")
    if dashboard is not None:
        lines.append(f"  dashboard      {dashboard.address}   pid {dashboard.pid}   log {dashboard.log_file}")
    lines += [f"  object store   file://{service.objects}", f"  data folder    {folder}", "", "Try in another terminal:", ""]
    for comment, command in commands(service, gateway, monitor, demo=demo):
        lines += [f"  # {comment}", f"{COMMAND_MARK}{command}"]
    if gateway is not None:
        lines += ["", "Use Kafka's own tools, kcat or any Kafka client, in this order:", ""]
        for comment, command in client_commands(gateway, demo=demo):
            lines += [f"  # {comment}", f"{COMMAND_MARK}{command}"]
    victim = service.processes[-1]
    assert victim.process is not None
    if service.nodes > 1:
        lines += [
            "",
            f"Kill a node and watch the other take over; it comes back {service.restart_after_s:g} s later:",
            "",
            f"{COMMAND_MARK}kill -9 {victim.process.pid}",
            f"{COMMAND_MARK}diskless coordinator status --watch",
        ]
    return "\n".join([*lines, "", "Ctrl-C here, or `diskless dev down`, stops everything.", ""])


def commands(service: LocalService, gateway: DevGateway | None, monitor: DevMonitor | None, *, demo: bool) -> list[tuple[str, str]]:
    """Commands to try, each with its purpose; the first two set the variables of the others."""
    config = service.processes[0].folder / "coordinator.properties"
    listed = [
        ("where the service is", f"export DISKLESS_BOOTSTRAP_SERVER={','.join(service.addresses)}"),
        ("a settings file of it", f"export DISKLESS_CONFIG={shlex.quote(str(config))}"),
        ("who leads what, and how far the standbys are", "diskless coordinator status"),
        ("the topics", "diskless topics list" if demo else "diskless topics create orders --partitions 4"),
    ]
    if demo:
        listed += [
            ("records of a partition, from the object store", f"diskless batches find {ORDERS} 0 --fetch --max-batches 3"),
            ("ends of the partitions, read strictly", f"diskless offsets list {ORDERS} --time latest"),
            ("which files the coordinators know", "diskless files list --max 5"),
        ]
    listed.append(("the log that is the truth", "diskless log dump --max 5"))
    database = _database(service)
    if database is not None:
        listed.append(("SQL over the state of a node", f"diskless db sql {shlex.quote(str(database))} {shlex.quote(SQL)}"))
    if gateway is not None:
        listed.append(("the gateway, and what it has done", "diskless gateways describe"))
    if monitor is not None:
        listed.append(("what Spark makes of the log, audit included", f"diskless monitor status --dir {shlex.quote(str(monitor.folder))}"))
    listed.append(("what is wrong, if anything", "diskless doctor"))
    return listed


def client_commands(gateway: DevGateway, *, demo: bool) -> list[tuple[str, str]]:
    """Commands of Kafka's own distribution and of kcat, each with its purpose; each needs those before it."""
    server = f"--bootstrap-server {gateway.address}"
    create = f"--create --topic {MINE} --partitions 3"
    read = f"--topic {MINE} --group readers --from-beginning --max-messages 20 --timeout-ms 10000"
    listed = [
        # Kafka's tool refuses a setting that it does not know, as diskless.enable, before it asks: its client id says the same.
        ("a diskless topic", f"echo client.id=diskless_enable=true | kafka-topics.sh {server} {create} --command-config /dev/stdin"),
        ("write records", f"seq 10 | kcat -b {gateway.address} -P -t {MINE}"),
        ("and with Kafka's own tool", f"seq 11 20 | kafka-console-producer.sh {server} --topic {MINE}"),
        (
            "read them in a group",
            f"kafka-console-consumer.sh {server} {read}",
        ),
        ("how far the group is", f"kafka-consumer-groups.sh {server} --describe --group readers"),
        ("keep records for a day", f"kafka-configs.sh {server} --alter --topic {MINE} --add-config retention.ms=86400000"),
        ("delete it", f"kafka-topics.sh {server} --delete --topic {MINE}"),
    ]
    if demo:
        listed.append(("the demo load", f"kcat -b {gateway.address} -C -t {ORDERS} -o beginning -c 3"))
    return listed


def _database(service: LocalService) -> Path | None:
    """The largest state database of the first node: it belongs to a coordinator that has something to show."""
    found = sorted(service.processes[0].data_folder.rglob("partition-*.db"), key=lambda path: path.stat().st_size)
    return found[-1] if found else None
