"""The data directories of a node (KIP-858): where each replica is at home, which directories have failed, and moves between them."""
