"""Topics as tables: records of diskless topics as Arrow columns, read from their objects, and copied into tables of a lake."""
