"""The gateway: unmodified Kafka clients write and read diskless topics through it (`DESIGN.md` in this folder)."""

from coordinator.protocol import kio_alone as kio_alone  # before any module of this package imports kio
