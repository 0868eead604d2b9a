"""ConsumerGroupDescribe (key 69, version 0): UNSUPPORTED_VERSION for each group, as in Kafka in ZooKeeper mode.

Clients then send DescribeGroups.
"""

from __future__ import annotations

from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


async def handle(
    services: BrokerServices, request: ConsumerGroupDescribeRequest, context: RequestContext
) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(
        groups=tuple(
            DescribedGroup(group_id=group_id, error_code=Errors.UNSUPPORTED_VERSION) for group_id in request.group_ids
        )
    )


SERVES = Serves(request=ConsumerGroupDescribeRequest, versions=(0, 0), handle=handle)
