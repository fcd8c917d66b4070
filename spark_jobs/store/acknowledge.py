"""Acknowledging findings: a person says that one is known, with a name and a reason, and may take that back.

A finding that is acknowledged stays where it is; headline, alerts and exit status speak of the open ones. Every action is a
row of `acknowledgement` and is never changed; a finding names the one in force. Findings beyond what a micro-batch keeps have
no row of their own: they are counted, and only acknowledged together with all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spark_jobs.store.engine import StoreConnection
from spark_jobs.store.statements import insert_numbered, marks

TEXT_MAX = 500
NAMED_MAX = 900
"""Ids in one question; older versions of SQLite take 999 parameters."""
_INSERT = insert_numbered("acknowledgement", "action", "who", "reason", "at_ms", "findings", "without_row")


class AcknowledgeError(Exception):
    """The action cannot be done as asked."""


class UnknownFindingError(AcknowledgeError):
    """No finding has this id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which findings: those with these ids, or those of a rule, or all when neither is given."""

    ids: Sequence[int] = ()
    rule: str | None = None

    @property
    def is_all(self) -> bool:
        return not self.ids and self.rule is None


def acknowledge(db: StoreConnection, choice: Choice, *, who: str, reason: str, now_ms: int) -> int:
    """Acknowledge open findings; returns how many. In a transaction of the caller. Raises `AcknowledgeError`."""
    return _act(db, choice, "acknowledge", who, reason, now_ms)


def reopen(db: StoreConnection, choice: Choice, *, who: str, reason: str, now_ms: int) -> int:
    """Take acknowledgements back; otherwise as `acknowledge`."""
    return _act(db, choice, "reopen", who, reason, now_ms)


def _act(db: StoreConnection, choice: Choice, action: str, who: str, reason: str, now_ms: int) -> int:
    values = [_text("a name", who), _text("a reason", reason)]
    where, parameters = _condition(db, choice)
    is_ack = action == "acknowledge"
    found = f"from finding where {where} and acknowledgement is {'' if is_ack else 'not '}null"
    count = _number(db, f"select count(*) {found}", parameters)
    without_row, covered = _without_row(db)
    if choice.is_all and is_ack:
        count += without_row - covered
    elif choice.is_all:
        count += covered
    if not count:
        return 0
    covers = (without_row if is_ack else 0) if choice.is_all else None
    db.execute(_INSERT, (action, *values, now_ms, count, covers))
    number = _number(db, "select max(id) from acknowledgement")
    db.execute(f"update finding set acknowledgement = ? where id in (select id {found})", (number if is_ack else None, *parameters))
    return count


def _condition(db: StoreConnection, choice: Choice) -> tuple[str, list[object]]:
    if choice.rule is not None:
        return "rule = ?", [choice.rule]
    if not choice.ids:
        return "true", []
    if len(choice.ids) > NAMED_MAX:
        raise AcknowledgeError(f"{len(choice.ids)} findings are named, at most {NAMED_MAX} can be at once; name a rule or all")
    wanted = sorted(set(choice.ids))
    known = {row[0] for row in _rows(db, f"select id from finding where id in ({marks(wanted)})", wanted)}
    unknown = [one for one in wanted if one not in known]
    if unknown:
        raise UnknownFindingError(f"there is no finding {', '.join(map(str, unknown[:10]))}; list the findings to see their ids")
    return f"id in ({marks(wanted)})", list(wanted)


def _text(what: str, text: str) -> str:
    text = " ".join(text.split())
    if not text:
        raise AcknowledgeError(f"{what} is needed")
    if len(text) > TEXT_MAX:
        raise AcknowledgeError(f"{what} has {len(text)} characters, at most {TEXT_MAX} are kept")
    return text


def _without_row(db: StoreConnection) -> tuple[int, int]:
    """How many findings were counted and got no row, and how many of them are acknowledged."""
    # Summed here: SQLite's own sum fails beyond 64 bits. Rows are numbered from 1 on, and only the oldest are ever deleted.
    total = sum(int(row[0]) for row in _rows(db, "select value from total where name = 'findings'"))
    without_row = max(0, total - _number(db, "select max(id) from finding"))
    covered = _number(db, "select without_row from acknowledgement where without_row is not null order by id desc limit 1")
    return without_row, min(without_row, covered)


def _rows(db: StoreConnection, query: str, parameters: Sequence[object] = ()) -> list[Any]:
    return db.execute(query, parameters).fetchall()


def _number(db: StoreConnection, query: str, parameters: Sequence[object] = ()) -> int:
    """One number, 0 for none."""
    rows = _rows(db, query, parameters)
    return int(rows[0][0] or 0) if rows else 0


def open_without_row(db: StoreConnection) -> int:
    """How many open findings were counted and got no row."""
    without_row, covered = _without_row(db)
    return without_row - covered


def open_count(db: StoreConnection) -> int:
    """How many findings are not acknowledged."""
    return _number(db, "select count(*) from finding where acknowledgement is null") + open_without_row(db)
