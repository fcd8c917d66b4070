"""Kafka's Produce for diskless topics: requests are checked, packed into WAL files, uploaded and committed, and answered.

    taker -> request, faults, rules (checks_loops, wire_loops) -> buffer, connections -> files -> uploads -> commits -> answers

Invariants:
- A batch is stored byte for byte as it came, after checks that a broker would make; a refused partition is refused alone.
- Batches of one connection and partition stay in their order: in the buffer, in a file (sorted by partition, stably), among files
  (the shares of a coordinator are committed in the order in which the files were cut).
- An acknowledgement says what a coordinator has answered for this very batch. Without its answer the same key is asked again, unchanged; a
  client gets REQUEST_TIMED_OUT when its own time is over, and the file goes on.
- Bytes of requests are counted from receipt until all their batches have an outcome (`RequestMemory`).
- A client that got no answer repeats. Batches of idempotent producers are recognised then by their sequences, in whatever file they come.
"""
