"""Records that a query should read and that are gone: an error, or a warning, as `failOnDataLoss` says."""

from __future__ import annotations

import logging

from coordinator.errors import DisklessError

LOG = logging.getLogger("diskless.source")


class DataLoss(DisklessError):
    """Records are gone before they were read; the text names partitions and offsets, and how to go on without them."""


def data_loss(text: str) -> DataLoss:
    """Make the error, with its remedy."""
    return DataLoss(
        f"{text}. Some data may have been lost: deleted by retention or DeleteRecords, or with its topic. "
        'If the query shall go on without it, set the source option "failOnDataLoss" to "false".'
    )


def report_loss(text: str, *, fails: bool) -> None:
    """Raise `DataLoss`, or log it."""
    if fails:
        raise data_loss(text)
    LOG.warning("%s; the query goes on, since failOnDataLoss is false", text)
