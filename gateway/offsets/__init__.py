"""Offsets of diskless topics: ListOffsets, DeleteRecords and OffsetForLeaderEpoch, from the coordinators.

Answers are those of a broker that leads the partitions with leader epoch 0 and has no tiered storage. Partitions are refused one by one:
who may not use a topic (Describe; Delete for DeleteRecords) hears nothing else about it, not even whether it exists.
Invariant: every partition of a request has one answer, in the request's order.
"""
