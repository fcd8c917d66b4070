"""Classic topics of Kafka become diskless.

What is read of Kafka comes through the ports of `classic.py`; `coordinator.adapters.kafka.classic` is a real Kafka behind them.
"""
