"""The calls of a driver at its ports, one by one: the driver is killed at one, or something else happens there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any


class Killed(BaseException):
    """The process of a driver ends."""


class Steps:
    """Counts the calls of a driver at both ports, and does something before or after one of them."""

    def __init__(self, number: int = -1, *, is_after: bool = False, action: Callable[[], None] | None = None) -> None:
        self.names: list[str] = []
        self._number = number
        self._is_after = is_after
        self._action = action

    def over(self, port: Any) -> Any:
        return _Watched(port, self)

    async def call(self, name: str, method: Callable[..., Any], args: Sequence[Any], options: dict[str, Any]) -> Any:
        is_chosen = len(self.names) == self._number
        self.names.append(name)
        if is_chosen and not self._is_after:
            self._act()
        answer = await method(*args, **options)
        if is_chosen and self._is_after:
            self._act()
        return answer

    def _act(self) -> None:
        if self._action is None:
            raise Killed
        self._action()


class _Watched:
    def __init__(self, port: Any, steps: Steps) -> None:
        self._port = port
        self._steps = steps

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)
        if not asyncio.iscoroutinefunction(found):
            return found

        async def call(*args: Any, **options: Any) -> Any:
            return await self._steps.call(name, found, args, options)

        return call
