"""The classic parts of migrated topics: offsets below the start of the diskless log (B0), whose records stay with the brokers.

Brokers are asked with the gateway's own login, once the rights of the client were asked: a client's connection leads to any broker, and the
leader of a partition is another one mostly. Invariants:
- Nothing that stands in a classic log at or above B0 is given out.
- A broker that does not answer delays its own partitions alone, and no longer than they are asked for.
"""
