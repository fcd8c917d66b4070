"""`diskless storage`: the data directories of this machine, with the words of Kafka's own kafka-storage.sh."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.options import config_option, output_option, property_option
from cli.output import print_rows, say

if TYPE_CHECKING:
    from cli.output import Row
    from coordinator.config.directories import MetaProperties

FORMAT_COLUMNS = ("path", "directory_id", "cluster_id", "node_id")
INFO_COLUMNS = ("path", "state", "directory_id", "cluster_id", "node_id", "free", "total")
CLUSTER_ID = re.compile(r"[A-Za-z0-9._-]{1,249}")


@click.group()
def storage() -> None:
    """Prepare and look at the data directories of this machine."""


@storage.command("format")
@click.option("-t", "--cluster-id", required=True, help="The id of the Kafka cluster (`kafka-cluster.sh cluster-id`).")
@click.option("--ignore-formatted", is_flag=True, help="Keep directories that are formatted already, if they belong to the node.")
@config_option
@property_option
@output_option
def format_(cluster_id: str, ignore_formatted: bool, config_file: Path | None, properties: Sequence[str], output: str) -> None:
    """Write meta.properties into every directory of `data.dirs`: which cluster, node and directory it is.

    A node does that itself at its start; this is for those who prepare disks before, or want a wrong mount to be noticed. Nothing is
    written unless all directories can be used.

    Example: `diskless storage format --cluster-id 4L6g3nShT-eMCtK--X86sw --config coordinator.properties`
    """
    from cli.configuration import read_settings
    from cli.outcome import Exit, Failed
    from coordinator.config.directories import DirectoryError, format_directories
    from coordinator.kafka.directory_ids import directory_id_text

    settings = read_settings(config_file, properties)
    if not CLUSTER_ID.fullmatch(cluster_id):
        raise Failed("--cluster-id is no id of a Kafka cluster: 1 to 249 letters, digits, '.', '_' and '-'", Exit.USAGE)
    try:
        formatted = format_directories(
            settings.data_dirs, cluster_id=cluster_id, node_id=settings.node_id, ignore_formatted=ignore_formatted
        )
    except DirectoryError as error:
        raise Failed(str(error)) from error
    rows: list[Row] = [
        {
            "path": str(one.path),
            "directory_id": directory_id_text(one.directory_id),
            "cluster_id": cluster_id,
            "node_id": settings.node_id,
        }
        for one in formatted
    ]
    print_rows(rows, output, FORMAT_COLUMNS)


@storage.command()
@config_option
@property_option
@output_option
def info(config_file: Path | None, properties: Sequence[str], output: str) -> None:
    """Show the directories of `data.dirs`: to which cluster and node each belongs, and how much room it has. Changes nothing.

    Status 1 when a node could not start with them; one that is not formatted is no problem, because a start formats it.

    Example: `diskless storage info --config coordinator.properties`
    """
    from cli.configuration import read_settings
    from cli.outcome import Failed
    from coordinator.config.directories import DirectoryError, read_meta_properties
    from coordinator.config.disk import remedy, room_of
    from coordinator.kafka.directory_ids import directory_id_text

    settings = read_settings(config_file, properties)
    found: dict[Path, MetaProperties] = {}
    problems: list[str] = []
    rows: list[Row] = []
    for path in settings.data_dirs:
        state, meta, room = "not formatted", None, None
        try:
            if path.exists():
                room = room_of(path)
                meta = read_meta_properties(path)
        except OSError as error:
            state = "unusable"
            problems.append(f"{path} is unusable: {error}; {remedy(error)}")
        except DirectoryError as error:
            state = "unusable"
            problems += error.problems
        if meta is not None:
            state, found[path] = "formatted", meta
        rows.append(
            {
                "path": str(path),
                "state": state,
                "directory_id": None if meta is None or meta.directory_id is None else directory_id_text(meta.directory_id),
                "cluster_id": None if meta is None else meta.cluster_id,
                "node_id": None if meta is None else meta.node_id,
                "free": None if room is None else room.free_bytes,
                "total": None if room is None else room.total_bytes,
            }
        )
    print_rows(rows, output, INFO_COLUMNS)
    problems += _contradictions(found, settings.node_id)
    for problem in problems:
        say(problem)
    if problems:
        raise Failed("a node could not start with these directories")


def _contradictions(found: Mapping[Path, MetaProperties], node_id: int) -> list[str]:
    """Return the reasons why directories cannot be used together, as far as they show without knowing the cluster."""
    from dataclasses import replace

    from coordinator.config.directories import directory_problems

    clusters = {meta.cluster_id: path for path, meta in found.items()}
    problems = []
    if len(clusters) > 1:
        several = " and ".join(f"{path} to cluster {cluster_id}" for cluster_id, path in clusters.items())
        problems = [f"{several}: directories of one node belong to one cluster; empty the wrong ones (they are caches)"]
    same = {path: replace(meta, cluster_id="") for path, meta in found.items()}
    return problems + directory_problems(same, cluster_id="", node_id=node_id)


@storage.command("random-uuid")
def random_uuid() -> None:
    """Print a random id, as Kafka draws them: for a directory.id, or for the cluster id of a new Kafka.

    Example: `diskless storage random-uuid`
    """
    from coordinator.config.directories import random_directory_id
    from coordinator.kafka.directory_ids import directory_id_text

    click.echo(directory_id_text(random_directory_id()))
