"""A protection of the design that a simulated run can do without: its rule, how to take it out, and where it is missed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from simulation.scenario import ENTRY_BYTES_MAX, Fault, Scenario, SimulatedGateways, SimulatedRestore, SimulatedRetention

Patch = tuple[Any, str, object]
Patches = Callable[[], list[Patch]]

PRUNERS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Protection:
    """One rule of the design, how to take it out, which kinds of faults show why it is there, and within how many seeds.

    `seed_first` is only where a search begins: a seed that broke a promise when it was written down.
    """

    rule: str
    patches: Patches
    kinds: tuple[str, ...]
    details: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()
    """Faults in the place of those that are drawn, where it takes several of them at the right times."""
    seeds_max: int = 20
    seed_first: int = 0
    producers_kept_s: float | None = None
    has_transactions: bool = False
    files: Mapping[str, Any] | None = None
    """Changes to the scenario's life of files; None: files have no objects, as far as this protection is concerned."""
    retention: Mapping[str, Any] | None = None
    """Changes to the scenario's retention; None: batches are kept for ever."""
    restore: Mapping[str, Any] | None = None
    """Changes to the restore with which the log begins; None: the log begins empty."""
    movers: int = 0
    """How many operators move partitions."""
    gateways: Mapping[str, Any] | None = None
    """Changes to the gateways that the seed would have; None: there are none."""

    def scenario(self, seed: int, duration_s: float, weakened: tuple[str, ...] = ()) -> Scenario:
        """A scenario with the faults that show why the protection is there."""
        drawn = Scenario.of_nodes(seed, duration_s, kinds=self.kinds, details=self.details, weakened=weakened)
        if self.files is None or drawn.files is None:
            drawn = replace(drawn, files=None)
        else:
            # Readers and young commits are judged only where clocks are true.
            drawn = replace(drawn, skews_ms=(), files=replace(drawn.files, **self.files))
        drawn = replace(drawn, movers=self.movers)
        drawn = replace(drawn, retention=None if self.retention is None else SimulatedRetention(**self.retention))
        if self.faults:
            drawn = replace(drawn, faults=self.faults)
        drawn = replace(drawn, restore=None if self.restore is None else SimulatedRestore(**self.restore))
        if self.producers_kept_s is not None:
            drawn = replace(drawn, producers_kept_s=self.producers_kept_s)
        if self.has_transactions:
            drawn = replace(drawn, entry_bytes_max=ENTRY_BYTES_MAX, pruners=PRUNERS)
        if self.gateways is None:
            return drawn
        return drawn.with_gateways(replace(SimulatedGateways.drawn(seed), **self.gateways))

    def seeds(self) -> Iterator[int]:
        """The seeds to try, in the order in which to try them."""
        yield self.seed_first
        yield from (seed for seed in range(self.seeds_max) if seed != self.seed_first)


def around(owner: Any, attribute: str) -> Callable[[Callable[..., object]], Patches]:
    """Make patches of a function that takes the place of another one, which it gets as its first argument."""

    def decorate(replacement: Callable[..., object]) -> Patches:
        _, *parameters = inspect.signature(replacement).parameters.values()

        def patches() -> list[Patch]:
            replaced = getattr(owner, attribute)

            def weaker(*given: object, **named: object) -> object:
                return replacement(replaced, *given, **named)

            weaker.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
            return [(owner, attribute, weaker)]

        return patches

    return decorate


def instead(owner: Any, attribute: str) -> Callable[[object], Patches]:
    """Make patches of a function that takes the place of another one."""
    return lambda replacement: lambda: [(owner, attribute, replacement)]


@contextmanager
def applied(*makers: Patches) -> Iterator[None]:
    """Apply patches for a while, each maker after those before it."""
    with ExitStack() as undo:
        for make in makers:
            for owner, attribute, replacement in make():
                undo.callback(setattr, owner, attribute, getattr(owner, attribute))
                setattr(owner, attribute, replacement)
        yield
