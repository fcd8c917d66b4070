"""The settings of a gateway, by subject, as `coordinator.config.sections` has those of a node."""
