"""The ports that clients connect to: the gateway's own node, and a relay port for each real broker."""
