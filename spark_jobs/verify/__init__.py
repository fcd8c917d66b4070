"""The batch job `verify`: the state of each metadata partition, rebuilt from the log alone and compared with replicas'."""
