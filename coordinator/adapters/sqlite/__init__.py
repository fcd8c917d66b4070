"""The state database: one SQLite file per metadata partition, a cache of the log.

    stores = StateDatabases(directory)
    database = stores.open(partition, cluster_id, topic_id)

`database` is the way in, `writer` and `reader` its two sides, `schema` the tables, `inspect` what people's SQL sees. `pinned` reads the
rows of a snapshot, `building` makes a database of them. `directory` is a data directory with everything in it.
"""

from coordinator.adapters.sqlite.database import StateDatabase
from coordinator.adapters.sqlite.directory import SqliteDirectory
from coordinator.adapters.sqlite.errors import DirectoryFailed, StateCorrupt, StateLocked
from coordinator.adapters.sqlite.reader import StateReader
from coordinator.adapters.sqlite.stores import StateDatabases

__all__ = ["DirectoryFailed", "SqliteDirectory", "StateCorrupt", "StateDatabase", "StateDatabases", "StateLocked", "StateReader"]
