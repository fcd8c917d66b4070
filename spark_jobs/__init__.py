"""Spark Structured Streaming and batch jobs that read `__diskless_metadata`, and the dashboard they feed. Imports `records` only."""
