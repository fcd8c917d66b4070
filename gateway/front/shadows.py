"""Tells shadows whose creation is not finished from classic topics, so that no topic is shown as classic by mistake.

A shadow takes no records (`max.message.bytes=0`), and is diskless once the coordinator lists it. A topic that is neither listed nor known as
classic is looked up before any answer shows it: first a listing that is new, then its setting, asked with the gateway's own login.
Invariant: an id that is kept here is that of a classic topic at the time it was asked for; a topic that becomes diskless later is found in
the catalogue, which is looked at first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final, Protocol

import kio.schema.describe_configs.v4 as describe_configs
import kio.schema.describe_configs.v4.request as describe_configs_request
from kio.schema.errors import ErrorCode

from coordinator.client.errors import ServiceError
from coordinator.protocol.codec import Message
from gateway.brokers.connection import Answer
from gateway.ports import Catalogue

LOG = logging.getLogger(__name__)

KEPT_MAX: Final = 200_000
REFRESH_TIMEOUT_S: Final = 5.0
_TOPIC: Final = 2
_TAKES_NOTHING: Final = "0"


class AsksBrokers(Protocol):
    """Asks brokers with the gateway's own login."""

    async def ask(self, request: Message, answer_type: type[Answer]) -> Answer:
        """Ask any broker. Raises `UpstreamLost`."""


class Shadows:
    """See the module. Used on one event loop."""

    def __init__(self, catalogue: Catalogue, brokers: AsksBrokers) -> None:
        self._catalogue = catalogue
        self._brokers = brokers
        self._classic: set[bytes] = set()
        self.lookups = 0
        """How often topics had to be looked up."""

    async def unfinished(self, topics: Sequence[tuple[str, bytes]]) -> frozenset[bytes]:
        """Return the ids of those topics, by name and id, that may not be shown as classic ones. Raises `UpstreamLost`."""
        unknown = self._unknown(topics)
        if not unknown:
            return frozenset()
        self.lookups += 1
        try:
            async with asyncio.timeout(REFRESH_TIMEOUT_S):
                await self._catalogue.refreshed()
        except (ServiceError, TimeoutError) as error:
            # A shadow is told by its setting as well, listed or not.
            LOG.warning("topics not listed before an answer reason=%r", str(error) or "no answer in time")
        unknown = self._unknown(unknown)
        if not unknown:
            return frozenset()
        classic = await self._classic_names([name for name, _ in unknown])
        if len(self._classic) + len(unknown) > KEPT_MAX:
            self._classic.clear()
        self._classic.update(topic_id for name, topic_id in unknown if name in classic)
        return frozenset(topic_id for name, topic_id in unknown if name not in classic)

    def _unknown(self, topics: Sequence[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
        return [
            (name, topic_id) for name, topic_id in topics if topic_id not in self._classic and self._catalogue.identified(topic_id) is None
        ]

    async def _classic_names(self, names: Sequence[str]) -> frozenset[str]:
        """Return the topics that take records. Raises `UpstreamLost`."""
        resources = tuple(
            describe_configs_request.DescribeConfigsResource(
                resource_type=_TOPIC,
                resource_name=name,
                configuration_keys=("max.message.bytes",),  # type: ignore[arg-type]
            )
            for name in names
        )
        request = describe_configs.DescribeConfigsRequest(resources=resources, include_synonyms=False, include_documentation=False)
        answer = await self._brokers.ask(request, describe_configs.DescribeConfigsResponse)
        found = set()
        for one in answer.results:
            if one.error_code is ErrorCode.none:
                if any(config.value != _TAKES_NOTHING for config in one.configs):
                    found.add(one.resource_name)
            elif one.error_code is not ErrorCode.unknown_topic_or_partition:
                LOG.warning("setting of a topic not read topic=%r error=%s: it is not shown", one.resource_name, one.error_code.name)
        return frozenset(found)
