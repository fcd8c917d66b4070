"""The story of a run: the lines a person reads, and a hash of everything that tells two runs apart."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b

MINOR_LINES_SHOWN = 60


class Violation(Exception):
    """A rule was broken; `rule` is its short name."""

    def __init__(self, rule: str, text: str) -> None:
        super().__init__(f"{rule}: {text}")
        self.rule = rule
        self.text = text


class Story:
    """Lines with virtual times. Minor lines (single requests) are kept only when `is_detailed`."""

    def __init__(self, now_s: Callable[[], float], *, is_detailed: bool) -> None:
        self.is_detailed = is_detailed
        self.is_over = False
        self._now_s = now_s
        self._lines: list[tuple[float, bool, str]] = []
        self._hasher = blake2b(digest_size=16)

    def tell(self, text: str) -> None:
        """Note something that belongs into every story."""
        if self.is_over:
            return
        now_s = self._now_s()
        self._lines.append((now_s, False, text))
        self._hasher.update(b"%.9f %s\n" % (now_s, text.encode()))

    def mention(self, text: str) -> None:
        """Note a detail; callers that build long texts ask `is_detailed` first."""
        if self.is_detailed and not self.is_over:
            self._lines.append((self._now_s(), True, text))

    def trace(self, what: bytes) -> None:
        """Count an event into the hash."""
        self._hasher.update(b"%.9f %s\n" % (self._now_s(), what))

    @property
    def trace_hash(self) -> str:
        """The hash of everything so far."""
        return self._hasher.hexdigest()

    def text(self) -> str:
        """The lines in order; of the minor ones only the last."""
        minor = [at for at, (_, is_minor, _) in enumerate(self._lines) if is_minor]
        hidden = set(minor[:-MINOR_LINES_SHOWN])
        return "\n".join(f"{now_s:9.4f}  {text}" for at, (now_s, _, text) in enumerate(self._lines) if at not in hidden)
