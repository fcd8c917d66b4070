"""Contracts of the ports: what the fake and the adapter of each must both do."""
