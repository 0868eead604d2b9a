"""SaslHandshake (key 17, versions 0 and 1): refused, because every listener is PLAINTEXT and authenticates nobody.

Mirrors `KafkaApis.handleSaslHandshakeRequest`, which answers after the authentication of a connection.
"""

from __future__ import annotations

from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


async def handle(
    services: BrokerServices, request: SaslHandshakeRequest, context: RequestContext
) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=Errors.ILLEGAL_SASL_STATE)


SERVES = Serves(request=SaslHandshakeRequest, versions=(0, 1), handle=handle)
