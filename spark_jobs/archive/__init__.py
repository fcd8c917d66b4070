"""The streaming job `archive`: the decoded metadata log as a Delta table, for questions in SQL."""
