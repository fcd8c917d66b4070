"""The streaming job of the monitor: its life, what it asks Kafka besides the log, its metrics."""
