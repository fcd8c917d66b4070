"""Requests to the other nodes of the service, over pooled connections."""

from coordinator.adapters.peers.peers import PooledPeers

__all__ = ["PooledPeers"]
