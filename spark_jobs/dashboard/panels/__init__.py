"""The panels: pure functions from the store, a query and the time to JSON. None keeps anything between two calls."""
