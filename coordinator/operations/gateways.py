"""Produce gateways between the wire and the node, which plans them itself (`runtime.gateways`)."""

from __future__ import annotations

from typing import Final

from coordinator.operations.declaration import DISCOVERY, AnsweredBy, Operation, declare, refuse_whole
from coordinator.protocol.messages import DescribeGatewaysRequest, DescribeGatewaysResponse

DESCRIBE_GATEWAYS: Final[Operation] = declare(
    DescribeGatewaysRequest,
    DescribeGatewaysResponse,
    answered_by=AnsweredBy.ANY_NODE,
    acl=DISCOVERY,
    is_unbounded=True,
    refuse=refuse_whole(DescribeGatewaysResponse),
)
