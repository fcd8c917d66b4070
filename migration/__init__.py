"""Classic topics of Kafka become diskless: operators run this, no node does.

The steps read Kafka through the ports of `classic.py`, which `migration.kafka` implements, and call the coordinators as clients do.
"""
