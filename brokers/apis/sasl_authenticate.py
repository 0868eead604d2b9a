"""SaslAuthenticate (key 36, versions 0 to 2): refused, as on every PLAINTEXT listener of Kafka.

Mirrors `KafkaApis.handleSaslAuthenticateRequest`.
"""

from __future__ import annotations

from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


async def handle(
    services: BrokerServices, request: SaslAuthenticateRequest, context: RequestContext
) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=Errors.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )


SERVES = Serves(request=SaslAuthenticateRequest, versions=(0, 2), handle=handle)
