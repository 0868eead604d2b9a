"""Decodes a request frame, calls its handler and encodes the response. Mirrors `kafka.server.KafkaApis`.

Each module in `understudy.brokers.apis` states the versions it serves; there is no second list.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec
import structlog

from understudy.brokers.apis import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    allocate_producer_ids,
    alter_client_quotas,
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    api_versions,
    consumer_group_describe,
    consumer_group_heartbeat,
    controlled_shutdown,
    create_acls,
    create_delegation_token,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_delegation_token,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    end_txn,
    envelope,
    expire_delegation_token,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leader_and_isr,
    leave_group,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    renew_delegation_token,
    sasl_authenticate,
    sasl_handshake,
    stop_replica,
    sync_group,
    txn_offset_commit,
    update_features,
    update_metadata,
    write_txn_markers,
)
from understudy.brokers.apis.armed_answers import answered, given
from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import CloseConnection, Serves
from understudy.brokers.network.report_limit import ReportLimit
from understudy.brokers.supervisor import Supervisor
from understudy.foundation.cluster.errors import Errors, error_name
from understudy.foundation.eventlog.log import causing
from understudy.foundation.eventlog.records import RequestDetail, RequestReceived, ResponseSent
from understudy.foundation.wire.codec import decode
from understudy.foundation.wire.errors import UnsupportedVersion, WireError
from understudy.foundation.wire.headers import RequestHeader, decode_request_header, encode_response
from understudy.foundation.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from understudy.foundation.wire.registry import Api, api_by_key, api_of
from understudy.foundation.wire.schema import Message

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.server.KafkaApis")

_SERVED: tuple[Serves[Any], ...] = (
    produce.SERVES,
    fetch.SERVES,
    list_offsets.SERVES,
    offset_for_leader_epoch.SERVES,
    delete_records.SERVES,
    describe_producers.SERVES,
    metadata.SERVES,
    leader_and_isr.SERVES,
    stop_replica.SERVES,
    update_metadata.SERVES,
    controlled_shutdown.SERVES,
    find_coordinator.SERVES,
    join_group.SERVES,
    sync_group.SERVES,
    heartbeat.SERVES,
    leave_group.SERVES,
    offset_commit.SERVES,
    offset_fetch.SERVES,
    offset_delete.SERVES,
    list_groups.SERVES,
    describe_groups.SERVES,
    delete_groups.SERVES,
    create_topics.SERVES,
    create_partitions.SERVES,
    delete_topics.SERVES,
    elect_leaders.SERVES,
    alter_partition_reassignments.SERVES,
    list_partition_reassignments.SERVES,
    alter_partition.SERVES,
    describe_cluster.SERVES,
    describe_configs.SERVES,
    alter_configs.SERVES,
    incremental_alter_configs.SERVES,
    describe_log_dirs.SERVES,
    update_features.SERVES,
    allocate_producer_ids.SERVES,
    init_producer_id.SERVES,
    sasl_handshake.SERVES,
    sasl_authenticate.SERVES,
    add_partitions_to_txn.SERVES,
    add_offsets_to_txn.SERVES,
    end_txn.SERVES,
    write_txn_markers.SERVES,
    txn_offset_commit.SERVES,
    describe_transactions.SERVES,
    list_transactions.SERVES,
    describe_acls.SERVES,
    create_acls.SERVES,
    delete_acls.SERVES,
    create_delegation_token.SERVES,
    renew_delegation_token.SERVES,
    expire_delegation_token.SERVES,
    describe_delegation_token.SERVES,
    describe_client_quotas.SERVES,
    alter_client_quotas.SERVES,
    describe_user_scram_credentials.SERVES,
    alter_user_scram_credentials.SERVES,
    alter_replica_log_dirs.SERVES,
    envelope.SERVES,
    consumer_group_heartbeat.SERVES,
    consumer_group_describe.SERVES,
)

SERVED_VERSIONS: tuple[ApiVersion, ...] = api_versions.served_versions(_SERVED)


LONG_REQUEST_BYTES = 1 << 18
"""Number of bytes from which a request, some 5,000 partitions or five milliseconds, is decoded in another thread. The
controller's own broker also receives its large requests, and would answer no other request meanwhile."""


class HandlerFailed(Exception):
    """A handler raised an unexpected exception, which is the cause. The connection of the request is closed."""


class KafkaApis:
    """Answers requests, one frame at a time. All connections share it.

    Args:
        supervisor: stops the broker if a control request was perhaps applied in part.
    """

    def __init__(self, services: BrokerServices, supervisor: Supervisor) -> None:
        self._services = services
        self._supervisor = supervisor
        self._failures = ReportLimit(services.clock)
        self._served: Mapping[int, Serves[Any]] = {api_of(serves.request).key: serves for serves in _SERVED}

    async def handle(self, frame: bytes, *, listener: str, peer: str) -> bytes | None:
        """Return the response frame for a request frame; None if the client expects none.

        Raises:
            UnsupportedVersion: the API or version is not served; the connection has to be closed (AP-4).
            MalformedMessage: the frame cannot be decoded.
            HandlerFailed: the handler failed, or its response cannot be encoded in this version.
            CloseConnection: the request failed, and its client expects no answer.
        """
        header, position = decode_request_header(frame)
        api = api_by_key(header.api_key)
        assert api is not None, "decode_request_header knows the key"
        if api.request is ApiVersionsRequest:
            return await self._api_versions(api, header, frame, position, listener=listener, peer=peer)
        serves = self._served.get(header.api_key)
        if serves is None or not serves.versions[0] <= header.api_version <= serves.versions[1]:
            raise UnsupportedVersion(f"{api.name} v{header.api_version} is not served here")
        if len(frame) < LONG_REQUEST_BYTES:
            request = decode(serves.request, header.api_version, frame, position)
        else:
            request = await self._services.offload(partial(decode, serves.request, header.api_version, frame, position))
        context = _context(header, listener, peer)
        received = self._received(api, request, context) if serves.recorded else None
        with causing(received):
            try:
                response = await answered(self._services, serves, api, request, context)
            except CloseConnection:
                raise
            except Exception as error:
                self._report(api, context, error)
                if serves.fails_broker:
                    # Half of a control request may be applied, so what this broker holds is in doubt: it stops.
                    self._supervisor.fail(f"handling {api.name}", error)
                raise HandlerFailed(f"{api.name} v{header.api_version}: {type(error).__name__}: {error}") from error
            if response is None:
                return None
            if serves.recorded:
                self._sent(api, request, response, context)
        try:
            return encode_response(api, header.api_version, header.correlation_id, response)
        except WireError as error:
            self._report(api, context, error)
            raise HandlerFailed(f"the response of {api.name} v{header.api_version} cannot be sent: {error}") from error

    def _report(self, api: Api, context: RequestContext, error: Exception) -> None:
        """Log the exception of a handler, with its traceback unless this peer has caused many of them."""
        about = {"api": api.name, "peer": context.peer, "client_id": context.client_id}
        left_out = self._failures.take(context.peer)
        if left_out is None:
            log.debug("error when handling request", **about, why=repr(error))
        else:
            log.error("error when handling request", **about, left_out=left_out, exc_info=error)

    async def _api_versions(
        self, api: Api, header: RequestHeader, frame: bytes, position: int, *, listener: str, peer: str
    ) -> bytes:
        low, high = api_versions.VERSIONS
        if not low <= header.api_version <= high:
            return encode_response(api, 0, header.correlation_id, api_versions.unsupported_version())
        request = decode(ApiVersionsRequest, header.api_version, frame, position)
        response = await given(self._services, api, request, _context(header, listener, peer), _versions_served)
        if response is None or getattr(response, "error_code", Errors.NONE) == Errors.UNSUPPORTED_VERSION:
            return encode_response(api, 0, header.correlation_id, api_versions.unsupported_version())
        return encode_response(api, header.api_version, header.correlation_id, response)

    def _received(self, api: Api, request: Message, context: RequestContext) -> int:
        return self._services.events.append(
            RequestReceived(
                api=api.name,
                api_version=context.api_version,
                client_id=context.client_id or "",
                correlation_id=context.correlation_id,
                controller_epoch=getattr(request, "controller_epoch", -1),
                broker_epoch=getattr(request, "broker_epoch", -1),
            )
        )

    def _sent(self, api: Api, request: Message, response: Message, context: RequestContext) -> None:
        events = self._services.events
        client_id = context.client_id or ""
        if events.detail:
            events.append(
                RequestDetail(
                    api=api.name,
                    api_version=context.api_version,
                    client_id=client_id,
                    correlation_id=context.correlation_id,
                    request=msgspec.to_builtins(request),
                    response=msgspec.to_builtins(response),
                )
            )
        code = getattr(response, "error_code", Errors.NONE)
        events.append(
            ResponseSent(
                api=api.name, client_id=client_id, correlation_id=context.correlation_id, error=error_name(code)
            )
        )


def _context(header: RequestHeader, listener: str, peer: str) -> RequestContext:
    return RequestContext(
        api_version=header.api_version,
        correlation_id=header.correlation_id,
        client_id=header.client_id,
        listener=listener,
        peer=peer,
    )


async def _versions_served(
    services: BrokerServices, request: ApiVersionsRequest, context: RequestContext
) -> ApiVersionsResponse:
    return api_versions.answer(request, context.api_version, SERVED_VERSIONS, services.features.features)
