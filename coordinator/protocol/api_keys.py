"""The numbers of the requests. Made by `python -m codegen` from `coordinator/protocol/schemas/*.json`; do not edit."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

KIP_KEY_SHIFT: Final = 10_000


class ApiKey(IntEnum):
    """Those with KIP_ are the KIP's own, below 10000; each is also served 10000 higher, because Kafka 4.4 gave 93 and 94 to others."""

    METADATA = 3
    FIND_COORDINATOR = 10
    API_VERSIONS = 18
    KIP_CREATE_PARTITIONS = 93
    KIP_DELETE_TOPICS = 94
    KIP_COMMIT_FILE = 95
    KIP_DELETE_RECORDS = 96
    KIP_LIST_OFFSETS = 97
    KIP_FIND_BATCHES = 98
    KIP_DESCRIBE_FILES = 100
    CREATE_PARTITIONS = 10093
    DELETE_TOPICS = 10094
    COMMIT_FILE = 10095
    DELETE_RECORDS = 10096
    LIST_OFFSETS = 10097
    FIND_BATCHES = 10098
    DESCRIBE_FILES = 10100
    DESCRIBE_TOPICS = 10200
    DESCRIBE_COORDINATORS = 10201
    LIST_FILES = 10202
    UPDATE_SCHEMA_LEVEL = 10203
    PLACE_PARTITIONS = 10210
    REMOVE_TOPICS = 10211
    REGISTER_NODE = 10212
    REPORT_CONTRADICTION = 10213
    DESCRIBE_NODE = 10214
