"""The plan of a migration as `diskless migration start` shows it, and what an operator has to say about readers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from cli.outcome import Exit, Failed

if TYPE_CHECKING:
    from cli.output import Row
    from migration.kafka.fence import TopicAcls
    from migration.plan import MigrationPlan

PLAN_COLUMNS = ("partition", "state", "log_start_offset", "log_end_offset", "start_offset", "leader_epoch", "to_do")
EVERYBODY: Final = "everybody"
SUPER_USERS: Final = "super-users"
WITHOUT_ACLS: Final = (EVERYBODY, SUPER_USERS)
"""Who may read a topic that has no ACL."""


def plan_rows(plan: MigrationPlan) -> list[Row]:
    """Return a row for each partition."""
    return [
        {
            "partition": index,
            "state": plan.known[index].state if index < len(plan.known) else "classic",
            "log_start_offset": classic.log_start_offset,
            "log_end_offset": classic.log_end_offset,
            "start_offset": plan.known[index].start_offset if plan.is_done(index) else None,
            "leader_epoch": classic.leader_epoch,
            "to_do": "migrate" if not plan.is_done(index) else "finish" if plan.is_whole else "nothing",
        }
        for index, classic in enumerate(plan.classic)
    ]


def readers_text(name: str, acls: TopicAcls, readers: str | None) -> str:
    """Say what the ACL against writers changes for readers. Raises `Failed` when an operator has to say who they are."""
    from migration.kafka.fence import READERS

    if acls.others:
        return f"the topic has {count_text(acls.others, 'ACL')} of others, which go on to say who reads it"
    if acls.keeps_readers or readers == EVERYBODY:
        return f"the topic has no other ACL: {len(READERS)} more allow everybody all but to write, as it is without any"
    if readers == SUPER_USERS:
        return "the topic has no other ACL: Kafka's super users alone read it"
    raise Failed(
        f"topic {name} has no ACL but the one that stops its writers. If the brokers have allow.everyone.if.no.acl.found=true, that one "
        f"would lock its readers out: keep them with --readers {EVERYBODY}. If not, only super users read it: say so with --readers "
        f"{SUPER_USERS}, since --readers {EVERYBODY} would open the topic",
        Exit.USAGE,
    )


def settings_text(plan: MigrationPlan) -> str:
    """Say which settings the diskless topic has: those that say what is kept, and others that it takes over."""
    from migration.plan import settings_of

    change = f"`diskless topics alter {plan.name} --config ..` changes that"
    if plan.known:
        own = ", ".join(f"{name}={value}" for name, value in sorted(plan.settings.items()))
        return f"as the diskless topic was created, with {own or 'no setting of its own: the defaults of the service count'}; {change}"
    told = (f"{name}={value}{'' if name in plan.topic.own else ' (default of the brokers)'}" for name, value in settings_of(plan).items())
    return f"as in Kafka, {', '.join(told)}, retention of each part by itself; {change} for the diskless part"


def count_text(count: int, noun: str) -> str:
    """Return a count with its noun."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def summary(plan: MigrationPlan, *, readers: str | None, still_s: float) -> Sequence[str]:
    """Return what will happen, in lines for people. Without `readers`, a text about them, an operator has stopped the writers."""
    to_do = sum(not plan.is_done(index) for index in range(len(plan.classic)))
    writers = "an ACL denies everybody to write until all partitions are diskless"
    return (
        f"topic {plan.name}: {to_do} of {count_text(len(plan.classic), 'partition')} to migrate; {plan.records} offsets stay in Kafka",
        f"  writers: {'their operator has stopped them' if readers is None else writers}",
        f"  readers: {'nothing changes in Kafka' if readers is None else readers}",
        f"  settings: {settings_text(plan)}",
        f"  each log must not move for {still_s:g} s, with no open transaction and everything replicated",
        "  then the last batches of its producers are read, and its diskless log begins at its end",
        "  at last the classic topic takes no records any more (max.message.bytes=0), and writers go on through gateways",
    )
