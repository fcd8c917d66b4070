"""The cluster as clients see it: all gateways and brokers as nodes, with addresses of gateways only."""
