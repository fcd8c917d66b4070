"""Connections of the gateway to the brokers of the real cluster, and what is known of these brokers."""
