"""Gateways on real brokers and nodes, with clients that nobody here wrote."""
