"""The panels about the life of files: what the object store holds for live batches, what could go, and what went."""

from __future__ import annotations

from typing import Final

from helm.generator.model import Look, Panel, Query, Section, Unit
from helm.generator.service_queries import BY_PARTITION, metric, of_leader, rate

FILES: Final = Section(
    title="Files",
    panels=(
        Panel(
            title="Files with and without batches",
            help="A file of several coordinators counts at each. Empty ones have lost their last batch and are deleted after a while.",
            queries=(Query(expr=of_leader("files", "state", 'state=~"live|empty"'), legend="{{state}}"),),
            look=Look.STACKED,
        ),
        Panel(
            title="Empty files by what they wait for",
            help="Waiting ones wait for their age or for another coordinator, which has batches of them; deletable ones for the store.",
            queries=(Query(expr=of_leader("files", "state", 'state=~"waiting|deletable"'), legend="{{state}}"),),
        ),
        Panel(
            title="Bytes of files",
            help="Those of empty files are freed when their objects are deleted.",
            queries=(Query(expr=of_leader("file_bytes", "state"), legend="{{state}}"),),
            unit=Unit.BYTES,
            look=Look.STACKED,
        ),
        Panel(
            title="Deleted and handed over",
            help="Files per second whose objects were deleted, or which the next owner is responsible for from then on.",
            queries=(
                Query(expr=rate("files_deleted_total", per_partition=True), legend="deleted"),
                Query(expr=rate("files_handed_over_total", per_partition=True), legend="handed over"),
            ),
            unit=Unit.PER_SECOND,
        ),
        Panel(
            title="Deletions that failed",
            help="Calls to the object store per second; each is tried again.",
            queries=(Query(expr=rate("file_delete_failures_total", "partition", per_partition=True), legend=BY_PARTITION),),
            unit=Unit.PER_SECOND,
        ),
        Panel(
            title="Longest empty",
            help="How long the file has no batches that was emptied first, and is still there.",
            queries=(
                Query(expr=f"max by (partition) ({metric('file_oldest_empty_age_seconds', per_partition=True)})", legend=BY_PARTITION),
            ),
            unit=Unit.SECONDS,
        ),
    ),
)
