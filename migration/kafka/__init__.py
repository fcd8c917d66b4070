"""A classic topic of a real Kafka behind the ports of a migration: its logs over own connections, its records through Kafka's consumer."""

from coordinator.protocol import kio_alone as kio_alone  # before any module of this package imports kio
