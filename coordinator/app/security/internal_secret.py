"""Where the secret of the nodes comes from, and its changes: a file, or Kafka, on which all nodes agree."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, Protocol

from coordinator.adapters.kafka.agreed_secret import AgreedSecret, SecretUnavailable
from coordinator.config.settings import Settings
from coordinator.runtime.failures import FatalError
from coordinator.security.file_stamps import FileStamps
from coordinator.security.node_secret import NodeSecret, NodeSecretError, read_node_secret

LOG = logging.getLogger("coordinator.access")

FILE_LOOK_S: Final = 2.0
FIRST_RETRY_S: Final = 0.2
RETRY_MAX_S: Final = 5.0
LOOK_S: Final = 60.0
ASKED_LOOK_S: Final = 5.0
"""How soon Kafka may be looked at again because a node logged in: each login of a stranger as a node would be a look otherwise."""


class SecretSource(Protocol):
    """Where the secret comes from."""

    nodes: NodeSecret

    async def follow(self) -> None:
        """Look for changes again and again. Ends by being cancelled."""


Agree = Callable[[str | None], Awaitable[str]]


class FileSecret:
    """The secret of a file. Raises `FatalError` when made from a file that is not usable."""

    def __init__(self, file: Path) -> None:
        self.nodes = NodeSecret()
        self._file = file
        self._stamps = FileStamps([file])
        try:
            self.nodes.learn(read_node_secret(file))
        except NodeSecretError as error:
            raise FatalError(str(error)) from error

    async def follow(self, every_s: float = FILE_LOOK_S) -> None:
        """Look at the file again and again; one that is not usable changes nothing. Ends by being cancelled."""
        while True:
            await asyncio.sleep(every_s)
            if not self._stamps.have_changed():
                continue
            try:
                self.nodes.learn(read_node_secret(self._file))
            except NodeSecretError as error:
                if self._stamps.could_not_be_read(str(error)):
                    LOG.error("the nodes' secret is not reloaded error=%r; the last one stays", str(error))
            else:
                LOG.info("the nodes' secret is reloaded file=%s", self._file)


class KafkaSecret:
    """The secret on which the nodes agree through Kafka."""

    def __init__(self, agree: Agree) -> None:
        """`agree` takes the secret that is known and returns the one that counts; it raises `SecretUnavailable`."""
        self._asked = asyncio.Event()
        self.nodes = NodeSecret(self._asked.set)
        self._agree = agree
        self._is_silent = False

    async def follow(self, asked_look_s: float = ASKED_LOOK_S, look_s: float = LOOK_S) -> None:
        """Look again and again, sooner when a node logs in: it, or this node, may know an old secret. Ends by being cancelled."""
        pause_s = FIRST_RETRY_S
        while True:
            if not await self._look():
                await asyncio.sleep(pause_s)
                pause_s = min(RETRY_MAX_S, 2 * pause_s)
                continue
            pause_s = FIRST_RETRY_S
            self._asked.clear()
            await asyncio.sleep(asked_look_s)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(look_s):
                    await self._asked.wait()

    async def _look(self) -> bool:
        try:
            secret = await self._agree(self.nodes.secret)
        except SecretUnavailable as error:
            if not self._is_silent and not error.is_coming:
                self._is_silent = True
                consequence = "other nodes do not know this one" if self.nodes.secret is None else "the last one stays in force"
                LOG.warning("Kafka does not give the nodes' secret: %s; until it does, %s", error, consequence)
            return False
        if self._is_silent:
            LOG.info("Kafka gives the nodes' secret again")
        self._is_silent = False
        self.nodes.learn(secret)
        return True


def secret_source(settings: Settings, agreed: Callable[[], AgreedSecret]) -> SecretSource | None:
    """Return where the secret comes from; None when principals say who nodes are. Raises `FatalError` for a file that is not usable."""
    if settings.internal_principals:
        return None
    return KafkaSecret(agreed().agree) if settings.internal_secret_file is None else FileSecret(settings.internal_secret_file)
