"""A standalone cluster of Spark for tests: real processes, which run in an environment that is made for them."""
