"""All faults there are, by name: importing this module fills the catalogue."""

from __future__ import annotations

from integration_tests.faults import clock_faults, disk_faults, gateway_faults, log_faults, move_faults, network_faults, process_faults
from integration_tests.faults.catalogue import ACTIONS, Action, Hits, Needs

__all__ = ["ACTIONS", "MODULES", "Action", "Hits", "Needs"]

MODULES = (process_faults, network_faults, clock_faults, disk_faults, log_faults, move_faults, gateway_faults)
