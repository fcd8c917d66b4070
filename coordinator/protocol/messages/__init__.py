"""The requests and responses of KIP-1164 and this service's extensions, one module for each API."""

from coordinator.protocol.messages.commit_file import (
    CommitBatch,
    CommitBatchResult,
    CommitFileRequest,
    CommitFileResponse,
)
from coordinator.protocol.messages.create_partitions import (
    CreatablePartitions,
    CreatablePartitionsResult,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from coordinator.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)
from coordinator.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeletableTopicState,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from coordinator.protocol.messages.describe_coordinators import (
    DescribeCoordinatorsCoordinator,
    DescribeCoordinatorsNode,
    DescribeCoordinatorsRequest,
    DescribeCoordinatorsResponse,
)
from coordinator.protocol.messages.describe_files import (
    DescribeFileEntry,
    DescribeFileResult,
    DescribeFilesRequest,
    DescribeFilesResponse,
)
from coordinator.protocol.messages.describe_node import DescribeNodeRequest, DescribeNodeResponse
from coordinator.protocol.messages.describe_topics import (
    DescribeTopicsPartitionResult,
    DescribeTopicsRequest,
    DescribeTopicsResponse,
    DescribeTopicsTopic,
    DescribeTopicsTopicResult,
)
from coordinator.protocol.messages.find_batches import (
    FindBatchesBatchInfo,
    FindBatchesPartition,
    FindBatchesPartitionResponse,
    FindBatchesRequest,
    FindBatchesResponse,
    FindBatchesTopic,
    FindBatchesTopicResponse,
)
from coordinator.protocol.messages.list_files import (
    ListFilesFile,
    ListFilesRequest,
    ListFilesResponse,
)
from coordinator.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from coordinator.protocol.messages.place_partitions import (
    PlacePartitionsRequest,
    PlacePartitionsResponse,
    PlacePartitionsTopic,
    PlacePartitionsTopicResult,
)
from coordinator.protocol.messages.register_node import (
    RegisterNodeEndpoint,
    RegisterNodeRequest,
    RegisterNodeResponse,
)
from coordinator.protocol.messages.remove_topics import (
    RemoveTopicsRequest,
    RemoveTopicsResponse,
    RemoveTopicsTopic,
    RemoveTopicsTopicResult,
)
from coordinator.protocol.messages.report_contradiction import ReportContradictionRequest, ReportContradictionResponse
from coordinator.protocol.messages.update_schema_level import (
    UpdateSchemaLevelNode,
    UpdateSchemaLevelRequest,
    UpdateSchemaLevelResponse,
)

__all__ = [
    "CommitBatch",
    "CommitBatchResult",
    "CommitFileRequest",
    "CommitFileResponse",
    "CreatablePartitions",
    "CreatablePartitionsResult",
    "CreatePartitionsRequest",
    "CreatePartitionsResponse",
    "DeletableTopicResult",
    "DeletableTopicState",
    "DeleteRecordsPartition",
    "DeleteRecordsPartitionResult",
    "DeleteRecordsRequest",
    "DeleteRecordsResponse",
    "DeleteRecordsTopic",
    "DeleteRecordsTopicResult",
    "DeleteTopicsRequest",
    "DeleteTopicsResponse",
    "DescribeCoordinatorsCoordinator",
    "DescribeCoordinatorsNode",
    "DescribeCoordinatorsRequest",
    "DescribeCoordinatorsResponse",
    "DescribeFileEntry",
    "DescribeFileResult",
    "DescribeFilesRequest",
    "DescribeFilesResponse",
    "DescribeNodeRequest",
    "DescribeNodeResponse",
    "DescribeTopicsPartitionResult",
    "DescribeTopicsRequest",
    "DescribeTopicsResponse",
    "DescribeTopicsTopic",
    "DescribeTopicsTopicResult",
    "FindBatchesBatchInfo",
    "FindBatchesPartition",
    "FindBatchesPartitionResponse",
    "FindBatchesRequest",
    "FindBatchesResponse",
    "FindBatchesTopic",
    "FindBatchesTopicResponse",
    "ListFilesFile",
    "ListFilesRequest",
    "ListFilesResponse",
    "ListOffsetsPartition",
    "ListOffsetsPartitionResponse",
    "ListOffsetsRequest",
    "ListOffsetsResponse",
    "ListOffsetsTopic",
    "ListOffsetsTopicResponse",
    "PlacePartitionsRequest",
    "PlacePartitionsResponse",
    "PlacePartitionsTopic",
    "PlacePartitionsTopicResult",
    "RegisterNodeEndpoint",
    "RegisterNodeRequest",
    "RegisterNodeResponse",
    "RemoveTopicsRequest",
    "RemoveTopicsResponse",
    "RemoveTopicsTopic",
    "RemoveTopicsTopicResult",
    "ReportContradictionRequest",
    "ReportContradictionResponse",
    "UpdateSchemaLevelNode",
    "UpdateSchemaLevelRequest",
    "UpdateSchemaLevelResponse",
]
