"""The schema level of a real service: it is the newest one at once, and stays where it is under a setting that comes too late."""

from __future__ import annotations

from integration_tests.commands import run
from integration_tests.service import Service
from integration_tests.waiting import wait_until
from records.levels import LEVEL_LATEST


def test_a_fresh_service_is_at_the_newest_level_at_once_and_stays_there_over_a_restart(service: Service) -> None:
    service.start(1)
    (node,) = service.nodes.values()
    wait_until(lambda: f"schema level in force level={LEVEL_LATEST}" in node.log_text(), "the newest level")
    assert node.terminate() == 0
    node.properties["schema.level.max"] = "1"  # too late
    node.start()
    node.wait_ready()
    wait_until(lambda: f"level {LEVEL_LATEST} is in force, which never goes back" in node.log_text(), "the warning")
    [row] = run(service, "coordinator", "level")
    assert (row["node"], row["level_in_force"], row["highest_level"], row["gone"]) == (1, LEVEL_LATEST, LEVEL_LATEST, False)
