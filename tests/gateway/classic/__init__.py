"""Tests of the classic parts of migrated topics."""
