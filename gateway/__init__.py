"""The gateway: unmodified Kafka clients write and read diskless topics through it (`DESIGN.md` in this folder)."""
