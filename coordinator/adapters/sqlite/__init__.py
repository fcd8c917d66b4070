"""The state database: one SQLite file per metadata partition, a cache of the log.

    stores = StateDatabases(directory)
    database = stores.open(partition, cluster_id, topic_id)

`database` is the way in, `writer` and `reader` its two sides, `schema` the tables, `inspect` what people's SQL sees.
"""

from coordinator.adapters.sqlite.database import StateDatabase
from coordinator.adapters.sqlite.errors import DirectoryFailed, StateCorrupt, StateLocked
from coordinator.adapters.sqlite.reader import StateReader
from coordinator.adapters.sqlite.stores import StateDatabases

__all__ = ["DirectoryFailed", "StateCorrupt", "StateDatabase", "StateDatabases", "StateLocked", "StateReader"]
