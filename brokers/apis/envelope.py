"""Envelope (key 58, version 0): its connection is closed, because no request is forwarded in ZooKeeper mode.

Kafka advertises it all the same. Mirrors `KafkaApis.handleEnvelope` without forwarding.
"""

from __future__ import annotations

from typing import NoReturn

from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import CloseConnection, Serves
from understudy.foundation.wire.messages.envelope import EnvelopeRequest


async def handle(services: BrokerServices, request: EnvelopeRequest, context: RequestContext) -> NoReturn:
    raise CloseConnection("an Envelope request, but this cluster forwards no requests")


SERVES = Serves(request=EnvelopeRequest, versions=(0, 0), handle=handle)
