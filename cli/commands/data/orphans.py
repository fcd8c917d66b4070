"""`diskless orphans`: objects that were uploaded and never committed; they are found, and the scan deletes them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from cli.objects import UnusualKeys
from cli.options import output_option, service_options
from cli.outcome import Exit, Failed
from cli.output import RowStream, print_fields, say, time_text

if TYPE_CHECKING:
    from cli.output import Row
    from cli.service import ServicePlace
    from coordinator.client.calls.orphans import OrphanObject, OrphanScanState
    from coordinator.client.client import DisklessClient

COLUMNS = (("object_key", 60), ("size", 12), ("time", 24), ("reason", 0))
POLL_S = 0.5


@click.group()
def orphans() -> None:
    """Find and delete objects that were uploaded and never committed."""


@orphans.command()
@click.option("--dry-run", is_flag=True, help="Print what would be deleted now, and why; nothing is changed.")
@click.option("--force", is_flag=True, help="Scan although a restore is unfinished: files committed after its snapshots are then orphans.")
@service_options
@output_option
def scan(dry_run: bool, force: bool, service: ServicePlace, output: str) -> None:
    """Have the leader of the directory scan the object store for orphans now, and wait until it has finished.

    An orphan is older than file.commit.max.age.ms and diskless.coordinator.orphan.scan.grace.period.ms together, and no coordinator has
    it. It is deleted when every coordinator has promised never to take it. The service scans by itself, too. Status 1 when the scan was
    interrupted, which the service tries again; 6 when it has not finished within --timeout and goes on.

    Examples: `diskless orphans scan --dry-run --bootstrap-server localhost:9192 -o jsonl`,
    `diskless orphans scan --timeout 3600 --bootstrap-server localhost:9192`
    """
    from cli.service import ask, run

    if dry_run and force:
        raise Failed("--dry-run changes nothing, so there is nothing to force; leave one of the two out", Exit.USAGE)
    if dry_run:
        run(ask(service, lambda client: _print_found(client, output)))
        return
    state, is_finished = run(_scan(service, force), "waiting for the scan of the object store")
    print_fields(_fields(state), output)
    if state.is_running:
        raise Failed("the scan goes on; `diskless orphans status` shows how far it is", Exit.TIMEOUT)
    if not is_finished:
        raise Failed(f"the scan was interrupted and is tried again: {state.last_error or 'the directory got another leader'}")


@orphans.command()
@service_options
@output_option
def status(service: ServicePlace, output: str) -> None:
    """Show how far the scan for orphans is, or what the last one has found.

    Example: `diskless orphans status --bootstrap-server localhost:9192 -o json`
    """
    from cli.service import ask, run

    print_fields(_fields(run(ask(service, lambda client: client.admin.orphan_scan()))), output)


async def _scan(service: ServicePlace, force: bool) -> tuple[OrphanScanState, bool]:
    """Begin a scan and return its state at its end, or when time is over, and whether it has finished."""
    from cli.service import open_client

    async with open_client(service) as client:
        until_s = asyncio.get_running_loop().time() + service.timeout_s
        state = begun = await client.admin.begin_orphan_scan(is_forced=force)
        while state.is_running and (left_s := until_s - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(min(POLL_S, left_s))
            state = await client.admin.orphan_scan()
        return state, not state.is_running and not state.last_error and state.finished_ms != begun.finished_ms


async def _print_found(client: DisklessClient, output: str) -> None:
    examined = found = size_bytes = 0
    older_than, unusual = None, UnusualKeys()
    with RowStream(output, COLUMNS) as rows:
        async for page in client.admin.find_orphans():
            examined, found, size_bytes = examined + page.examined, found + page.orphans, size_bytes + page.orphan_bytes
            older_than = time_text(page.older_than_ms)
            unusual.add(page.unusual, page.unusual_keys)
            for one in page.found:
                rows.write(_row(one))
    say(f"{found} of {examined} objects are orphans, with {size_bytes} bytes; objects from {older_than} on are too young")
    unusual.tell()


def _row(one: OrphanObject) -> Row:
    return {"object_key": one.object_key, "size": one.size_bytes, "time": time_text(one.time_ms), "reason": one.reason}


def _fields(state: OrphanScanState) -> Row:
    return {
        "running": state.is_running,
        "started": time_text(state.started_ms),
        "last_finished": time_text(state.finished_ms),
        "older_than": time_text(state.older_than_ms),
        "examined": state.examined,
        "young": state.young,
        "known": state.known,
        "skipped": state.skipped,
        "unusual": state.unusual,
        "unusual_keys": list(state.unusual_keys),
        "orphans": state.orphans,
        "orphan_bytes": state.orphan_bytes,
        "deleted": state.deleted,
        "deleted_bytes": state.deleted_bytes,
        "after": state.after_key,
        "error": state.last_error,
    }
