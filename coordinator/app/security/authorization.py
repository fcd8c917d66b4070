"""Makes the rules of who may do what: from the settings, or from the ACLs of Kafka, which are asked for again and again."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from coordinator.adapters.kafka.acls import AclsUnavailable
from coordinator.config.settings import Settings
from coordinator.security.acls import AclTable, Binding, Everything, Rules

LOG = logging.getLogger("coordinator.access")

FIRST_RETRY_S: Final = 0.5

_BY_SETTINGS: Final = "add it to acls, or to super.users, of every node"
_BY_KAFKA: Final = (
    "kafka-acls --add {resource} --allow-principal {principal} --operation OPERATION; it counts here within authorizer.cache.ms"
)


def rules_of(settings: Settings) -> Rules:
    """Return the rules with which a process begins; with authorizer=kafka they are not known yet."""
    match settings.authorizer:
        case "acls":
            bindings = [
                Binding(entry.principal, operation, topics=entry.topics) for entry in settings.acls for operation in entry.operations
            ]
            return AclTable(bindings, super_users=settings.super_users, remedy=_BY_SETTINGS)
        case "kafka":
            return rules_of_kafka(settings, None)
    return Everything()


def rules_of_kafka(settings: Settings, bindings: Iterable[Binding] | None) -> Rules:
    """Return the rules that Kafka's ACLs make; None says that they are not known yet."""
    return AclTable(bindings, super_users=settings.super_users, remedy=_BY_KAFKA)


class KafkaRules:
    """Keeps the rules of authorizer=kafka current. While Kafka does not answer, its last known ones stay in force."""

    def __init__(
        self, *, read: Callable[[], Awaitable[frozenset[Binding]]], changed: Callable[[frozenset[Binding]], None], interval_ms: int
    ) -> None:
        """`read` raises `AclsUnavailable`; `changed` gets the ACLs whenever they have changed."""
        self._read = read
        self._changed = changed
        self._interval_s = interval_ms / 1000
        self._known: frozenset[Binding] | None = None
        self._is_silent = False
        self._answered_s: float | None = None
        self.failures = 0
        """How often Kafka did not answer."""
        self.are_known = asyncio.Event()

    @property
    def age_s(self) -> float | None:
        """Seconds since Kafka answered; None before its first answer."""
        return None if self._answered_s is None else time.monotonic() - self._answered_s

    async def run(self) -> None:
        """Ask again and again; sooner after a failure. Ends by being cancelled."""
        pause_s = FIRST_RETRY_S
        while True:
            if await self._ask():
                pause_s = FIRST_RETRY_S
                await asyncio.sleep(self._interval_s)
            else:
                await asyncio.sleep(min(pause_s, self._interval_s))
                pause_s *= 2

    async def _ask(self) -> bool:
        try:
            bindings = await self._read()
        except AclsUnavailable as error:
            self.failures += 1
            if not self._is_silent:
                consequence = "only super.users may do anything" if self._known is None else "its last known ACLs stay in force"
                LOG.warning("Kafka does not give its ACLs: %s; until it does, %s", error, consequence)
            self._is_silent = True
            return False
        except Exception:  # without this task a right that Kafka takes away would hold for ever
            self.failures += 1
            LOG.exception("Kafka was not asked for its ACLs")
            return False
        self._answered_s = time.monotonic()
        if self._is_silent:
            LOG.info("Kafka gives its ACLs again acls=%d", len(bindings))
        self._is_silent = False
        if bindings != self._known:
            self._known = bindings
            self._changed(bindings)
            self.are_known.set()
        return True
