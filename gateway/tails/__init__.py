"""Readers at the ends of partitions wait here, and share what is found out about them.

`finder.Tails` is asked for batches. Where a reader is at the end of a partition, or a little behind it, the partition is *followed*
(`tail.Tail`): one long poll for each node of coordinators and lane (`lanes.Lane`) asks for all of them, however many readers there are.
Files that this gateway commits itself are known without a question.

Invariants: a waiting reader has a waiter at each of its partitions, or is asking; a partition with waiters is a member of a lane, and a
lane with members has a task that polls. An answer of a tail is at most `tail.LIVE_S` older than the last answer of a node. Batches of a
tail have no holes.
"""
