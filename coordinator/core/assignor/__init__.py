"""Which node leads a metadata partition, and which nodes stand by for it."""
