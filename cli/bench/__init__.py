"""The benchmark of a running service: load over real sockets, with raw Kafka and raw SQLite measured beside it."""
