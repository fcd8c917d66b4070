"""Requests to the other nodes of the service, over pooled connections."""

from coordinator.adapters.peers.peers import PeerConnections

__all__ = ["PeerConnections"]
