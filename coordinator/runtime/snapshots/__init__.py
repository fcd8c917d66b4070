"""Snapshots of coordinators: when they are taken, how they are made, verified and loaded, and how far the log is pruned."""
