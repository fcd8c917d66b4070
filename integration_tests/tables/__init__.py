"""Topics as tables on a real Kafka, with a real Spark."""
