"""Snapshots in the data directory."""
