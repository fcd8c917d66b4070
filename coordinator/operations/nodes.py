"""Nodes and coordinators between the wire and the core: registration, description, produce gateways, complaints, the schema level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from coordinator.core.commands import Outcome, RegisterNode
from coordinator.operations.declaration import (
    ALTER,
    CLUSTER_ACTION,
    DISCOVERY,
    AnsweredBy,
    Lane,
    Operation,
    Translation,
    declare,
    itself,
    refuse_whole,
)
from coordinator.protocol.codec import Message
from coordinator.protocol.messages import (
    BalanceLeadersRequest,
    BalanceLeadersResponse,
    DescribeCoordinatorsRequest,
    DescribeCoordinatorsResponse,
    DescribeGatewaysRequest,
    DescribeGatewaysResponse,
    DescribeNodeRequest,
    DescribeNodeResponse,
    DrainNodeRequest,
    DrainNodeResponse,
    RegisterNodeRequest,
    RegisterNodeResponse,
    ReportContradictionRequest,
    ReportContradictionResponse,
    UpdateSchemaLevelNode,
    UpdateSchemaLevelRequest,
    UpdateSchemaLevelResponse,
)

if TYPE_CHECKING:
    from coordinator.core.directory.directory import Directory


def _registrations(request: RegisterNodeRequest) -> list[RegisterNode]:
    # Only nodes read registrations; other programs start without the records.
    from records.model import Endpoint

    endpoints = [Endpoint(listener=e.listener, host=e.host, port=e.port) for e in request.endpoints]
    registration = RegisterNode(
        node_id=request.node_id,
        rack=request.rack or "",
        endpoints=endpoints,
        schema_level_max=request.schema_level_max,
        incarnation_id=request.incarnation_id,
        replaced_id=request.replaced_id,
        log_dirs=request.log_dirs,
        is_any_dir_offline=request.is_any_dir_offline,
    )
    return [registration]


def _register_node_response(_: RegisterNodeRequest, outcomes: Sequence[Outcome]) -> Message:
    [outcome] = outcomes
    return RegisterNodeResponse(error_code=outcome.error, error_message=outcome.message)


REGISTER_NODE: Final[Operation] = declare(
    RegisterNodeRequest,
    RegisterNodeResponse,
    answered_by=AnsweredBy.DIRECTORY,
    acl=CLUSTER_ACTION,
    lane=Lane.UNORDERED,
    is_internal=True,
    translation=Translation(
        elements=_registrations, refused=itself, response=_register_node_response, command=lambda registrations: registrations[0]
    ),
)


def update_schema_level_response(outcome: Outcome, directory: Directory | None) -> Message:
    """Return what became of the request, and the level and nodes of the directory as the answering node knows it."""
    nodes = [] if directory is None else sorted(directory.nodes.values(), key=lambda one: one.node_id)
    return UpdateSchemaLevelResponse(
        error_code=outcome.error,
        error_message=outcome.message,
        level=-1 if directory is None else directory.schema_level,
        nodes=tuple(UpdateSchemaLevelNode(node_id=one.node_id, schema_level_max=one.schema_level_max) for one in nodes),
    )


DESCRIBE_NODE: Final[Operation] = declare(
    DescribeNodeRequest,
    DescribeNodeResponse,
    answered_by=AnsweredBy.ANY_NODE,
    acl=CLUSTER_ACTION,
    lane=Lane.UNORDERED,
    is_internal=True,
    refuse=refuse_whole(DescribeNodeResponse),
)

DRAIN_NODE: Final[Operation] = declare(
    DrainNodeRequest,
    DrainNodeResponse,
    answered_by=AnsweredBy.DIRECTORY,
    acl=ALTER,
    lane=Lane.ALONE,
    refuse=refuse_whole(DrainNodeResponse),
)

BALANCE_LEADERS: Final[Operation] = declare(
    BalanceLeadersRequest,
    BalanceLeadersResponse,
    answered_by=AnsweredBy.ANY_NODE,
    acl=ALTER,
    lane=Lane.ALONE,
    refuse=refuse_whole(BalanceLeadersResponse),
)

REPORT_CONTRADICTION: Final[Operation] = declare(
    ReportContradictionRequest,
    ReportContradictionResponse,
    answered_by=AnsweredBy.COORDINATOR,
    acl=CLUSTER_ACTION,
    lane=Lane.UNORDERED,
    is_internal=True,
    refuse=refuse_whole(ReportContradictionResponse),
)

DESCRIBE_COORDINATORS: Final[Operation] = declare(
    DescribeCoordinatorsRequest,
    DescribeCoordinatorsResponse,
    answered_by=AnsweredBy.ANY_NODE,
    acl=DISCOVERY,
    is_unbounded=True,
    refuse=refuse_whole(DescribeCoordinatorsResponse),
)

DESCRIBE_GATEWAYS: Final[Operation] = declare(
    DescribeGatewaysRequest,
    DescribeGatewaysResponse,
    answered_by=AnsweredBy.ANY_NODE,
    acl=DISCOVERY,
    is_unbounded=True,
    refuse=refuse_whole(DescribeGatewaysResponse),
)

UPDATE_SCHEMA_LEVEL: Final[Operation] = declare(
    UpdateSchemaLevelRequest,
    UpdateSchemaLevelResponse,
    answered_by=AnsweredBy.DIRECTORY,
    acl=ALTER,
    lane=Lane.ALONE,
    refuse=refuse_whole(UpdateSchemaLevelResponse),
    only_looks=lambda request: request.level == 0,
)
