"""The data source `diskless` of Spark, which `pyspark_diskless` registers.

The driver plans: options (`options`), topics and bounds (`lookup`), splits (`planning`, `stretches`). Splits carry offsets and no places:
retention and merging would make places stale, and a terabyte has millions. Executors find batches and fetch objects for themselves
(`executor`, over `tables.reading`), so no broker and no gateway takes part.
Invariant: a split names a topic by its id, so the records of another topic under the same name are never read.
"""
