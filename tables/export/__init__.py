"""A diskless topic is copied into a Delta or Iceberg table, each record once: the position moves in the commit that brings the rows."""
