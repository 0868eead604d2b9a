"""DescribeCluster (key 60): cluster id, controller and brokers (KIP-700).

Versions: 1 endpoint type (KIP-919). All are flexible.
"""

from __future__ import annotations

from typing import Annotated

from understudy.foundation.wire.schema import Message, int8, int16, int32, since


class DescribeClusterRequest(Message, frozen=True, kw_only=True):
    include_cluster_authorized_operations: bool = False
    endpoint_type: Annotated[int8, since(1)] = 1
    """1 brokers, 2 controllers, which only a KRaft cluster has."""


class DescribeClusterResponse(Message, frozen=True, kw_only=True):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    endpoint_type: Annotated[int8, since(1)] = 1
    cluster_id: str = ""
    controller_id: int32 = -1
    brokers: tuple[DescribeClusterBroker, ...] = ()
    cluster_authorized_operations: int32 = -(2**31)
    """A bit for each operation; the default if the request did not include them."""


class DescribeClusterBroker(Message, frozen=True, kw_only=True):
    broker_id: int32 = 0
    host: str = ""
    port: int32 = 0
    rack: str | None = None
