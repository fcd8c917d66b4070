"""Fetch: from the request of a client to the bytes of batches that the coordinator found.

Invariants:
- A batch is given out only when it is what the coordinator says, with the right checksum; what is not fails its partition alone, and
  only once everything before it was given out.
- The first batch of an answer comes whatever its size. Nothing else in memory follows from a number that a client chose: answers,
  reads under way and the cache have bounds of their own.
- Bytes of objects are copied once, into the answer; nobody changes the ones in the cache.
- A read of old data takes no place of a read of the tail.
"""
