"""Snapshots of metadata partitions as jobs read them."""
