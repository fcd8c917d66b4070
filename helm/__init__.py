"""Operation of the service: the dashboards, rules and runbook, and their generator."""
