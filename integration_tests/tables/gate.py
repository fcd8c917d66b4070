"""A query that is held at its first rows until a test lets it go on: what happens meanwhile, happens beside a running query.

gate = Gate(folder)
with gate.beside(gate.held(frame).collect) as result:
    ...                                     # tasks have read their first rows, and others are not begun
rows = result()
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from integration_tests.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

T = TypeVar("T")
RESULT_WAIT_S = 180


class Gate:
    """See the module's text. For one query."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._reached = folder / "reached"
        self._open = folder / "open"

    def held(self, frame: DataFrame) -> DataFrame:
        """Return the same rows, each task's only when the gate is open."""
        return frame.mapInArrow(_hold(str(self._reached), str(self._open)), frame.schema)

    @contextmanager
    def beside(self, run: Callable[[], T]) -> Iterator[Callable[[], T]]:
        """Run a query in a thread, and the block once it is held; it goes on when the block ends. Yields what waits for its result."""
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(run)
            try:
                wait_until(lambda: self._reached.exists() or running.done(), "the query to have its first rows")
                assert self._reached.exists(), running.result()
                yield lambda: running.result(RESULT_WAIT_S)
            finally:
                self._open.touch()


def _hold(reached: str, opened: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    # A function within a function goes to workers as a whole: they need not have the tests' modules.
    def hold(batches: Iterator[Any]) -> Iterator[Any]:
        import time
        from pathlib import Path

        for one in batches:
            Path(reached).touch()
            while not Path(opened).exists():
                time.sleep(0.02)
            yield one

    return hold
