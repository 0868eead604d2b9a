"""Produce (key 0, versions 0 to 11): a producer appends records to partitions that this broker leads.

With acks=all the answer waits until the high watermark has passed the records, at most `timeout_ms`. With acks=0 there
is no answer; if a partition fails, the connection is closed, so that the producer reads new metadata. Mirrors
`KafkaApis.handleProduceRequest`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

import structlog
from msgspec.structs import replace

from understudy.brokers.apis.leader_hints import current_leader, leader_endpoints
from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import CloseConnection, Serves
from understudy.brokers.config.log_config import LogConfig
from understudy.brokers.log.log_validator import CheckedBatches, RecordValidationError, checked_batches, takes_long
from understudy.brokers.log.record_errors import api_error
from understudy.brokers.metadata.topic_names import is_internal
from understudy.brokers.replication.replica_manager import ALL_ACKS, Appended
from understudy.foundation.cluster.errors import ApiError, Errors, error_name
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.records.batch import HEADER, MAGIC, SIZE_UP_TO_MAGIC, read_header, size_of_first
from understudy.foundation.records.compression import Compression, codec_of
from understudy.foundation.records.errors import CorruptRecord
from understudy.foundation.records.varint import Buffer
from understudy.foundation.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.server.ReplicaManager")

ADMIN_CLIENT_ID: Final = "__admin_client"
"""Client id whose producers may append to internal topics."""
NO_ACKS: Final = 0

WITH_ONE_BATCH: Final = 3
WITH_ZSTD: Final = 7
WITH_LEADER_HINTS: Final = 10


async def handle(services: BrokerServices, request: ProduceRequest, context: RequestContext) -> ProduceResponse | None:
    results: dict[TopicPartition, PartitionProduceResponse] = {}
    awaited: dict[TopicPartition, Appended] = {}
    refusal_of_all = _refusal_of_all(services, request, context.api_version)
    for topic in request.topic_data:
        for partition in topic.partition_data:
            topic_partition = TopicPartition(topic.name, partition.index)
            refusal = refusal_of_all or _refusal(services, topic_partition, partition.records, request.acks, context)
            if refusal is not None:
                results[topic_partition] = _refused(topic_partition, refusal)
                continue
            try:
                appended = await _append(services, topic_partition, partition.records or b"", request.acks)
            except ApiError as refused:
                results[topic_partition] = _not_appended(services, topic_partition, refused)
                continue
            results[topic_partition] = _accepted(appended)
            if request.acks == ALL_ACKS:
                awaited[topic_partition] = appended
            elif request.acks != NO_ACKS:
                services.replicas.record_acknowledgement(appended, request.acks)
    if awaited:
        ended = await services.replicas.wait_until_replicated(awaited, timeout_ms=request.timeout_ms)
        for topic_partition, error in ended.items():
            if error is not Errors.NONE:
                results[topic_partition] = replace(results[topic_partition], error_code=error)
    if request.acks == NO_ACKS:
        failed = {str(key): error_name(each.error_code) for key, each in results.items() if each.error_code}
        if failed:
            raise CloseConnection(f"a Produce with acks=0 failed, and has no answer that could say so: {failed}")
        return None
    return _response(services, request, results, context)


def _refusal_of_all(services: BrokerServices, request: ProduceRequest, version: int) -> ApiError | None:
    """Return the error with which every partition is refused because of the first batch of one; None without one.

    Kafka reads these batches before it looks at the partitions one by one, or fails while it does so: CORRUPT_MESSAGE
    for an impossible size or magic; before version 7 UNKNOWN_SERVER_ERROR for an unknown codec.
    """
    snapshot = services.metadata.snapshot
    try:
        for topic in request.topic_data:
            for partition in topic.partition_data:
                records = partition.records or b""
                size = size_of_first(records)
                is_read = WITH_ONE_BATCH <= version < WITH_ZSTD and size is not None and _is_whole(records, size)
                if is_read and snapshot.partition(topic.name, partition.index) is not None:
                    codec_of(read_header(records).attributes, "batch", 0)
    except CorruptRecord as corrupt:
        return api_error(corrupt)
    return None


def _is_whole(records: bytes, size: int) -> bool:
    """Whether the first batch, of `size` bytes, is of message format 2, and there with its header and its records."""
    return HEADER.size <= size <= len(records) and records[SIZE_UP_TO_MAGIC - 1] == MAGIC


def _refusal(
    services: BrokerServices, topic_partition: TopicPartition, records: bytes | None, acks: int, context: RequestContext
) -> ApiError | None:
    """Return the error with which the records of one partition are refused before the log sees them, or None."""
    if services.metadata.snapshot.partition(*topic_partition) is None:
        return ApiError(Errors.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    try:
        check_records_of(context.api_version, records or b"")
    except ApiError as refused:
        return refused
    if acks not in (ALL_ACKS, NO_ACKS, 1):
        return ApiError(Errors.INVALID_REQUIRED_ACKS, f"acks is {acks}; expected -1, 0 or 1")
    if is_internal(topic_partition.topic) and context.client_id != ADMIN_CLIENT_ID:
        return ApiError(Errors.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {topic_partition.topic}")
    return None


async def _append(services: BrokerServices, topic_partition: TopicPartition, records: bytes, acks: int) -> Appended:
    """Append the records of one partition.

    Raises:
        ApiError: they are refused.
    """
    partition = services.replicas.led_partition(topic_partition)
    data: Buffer | CheckedBatches = records
    if takes_long(records) and not (acks == ALL_ACKS and partition.is_under_min_isr):
        data = await _check(services, records, partition.log.config)
        partition = services.replicas.led_partition(topic_partition)
    return services.replicas.append_as_leader(partition, data, required_acks=acks)


def _accepted(appended: Appended) -> PartitionProduceResponse:
    """Return the answer for records that are acknowledged."""
    info = appended.info
    return PartitionProduceResponse(
        index=appended.partition.topic_partition.partition,
        base_offset=info.first_offset,
        log_append_time_ms=info.log_append_time,
        log_start_offset=info.log_start_offset,
    )


async def _check(services: BrokerServices, records: bytes, config: LogConfig) -> CheckedBatches:
    """Check batches on another thread, so that a compressed one of millions of records does not stop the broker.

    A producer's batches stay in order: its next request is not read before this one is answered.
    """
    now_ms = int(services.clock.wall_ms())
    async with services.long_checks:
        return await services.offload(partial(checked_batches, records, config=config, now_ms=now_ms))


def check_records_of(version: int, records: Buffer) -> None:
    """Check that a request holds one batch of message format 2. Mirrors `ProduceRequest.validateRecords`.

    Versions up to 2 hold message sets of older formats.

    Raises:
        ApiError: INVALID_RECORD or UNSUPPORTED_COMPRESSION_TYPE, or CORRUPT_MESSAGE for bytes that are no batch.
    """
    if version < WITH_ONE_BATCH:
        return
    about = f"Produce requests with version {version}"
    try:
        size = size_of_first(records)
        if size is None or size > len(records):
            raise ApiError(Errors.INVALID_RECORD, f"{about} must have at least one record batch per partition")
        if records[SIZE_UP_TO_MAGIC - 1] != MAGIC:
            reason = f"{about} are only allowed to contain record batches with magic version 2"
            raise ApiError(Errors.INVALID_RECORD, reason)
        header = read_header(records)
        if size_of_first(records, size) is not None:
            reason = f"{about} are only allowed to contain exactly one record batch per partition"
            raise ApiError(Errors.INVALID_RECORD, reason)
    except CorruptRecord as corrupt:
        raise api_error(corrupt) from None
    if version < WITH_ZSTD and header.compression is Compression.ZSTD:
        reason = f"{about} are not allowed to use ZStandard compression"
        raise ApiError(Errors.UNSUPPORTED_COMPRESSION_TYPE, reason)


_EXPECTED = frozenset(
    {
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.NOT_LEADER_OR_FOLLOWER,
        Errors.MESSAGE_TOO_LARGE,
        Errors.RECORD_LIST_TOO_LARGE,
        Errors.CORRUPT_MESSAGE,
        Errors.NOT_ENOUGH_REPLICAS,
    }
)
"""Errors that a client causes by its metadata or its records alone; they are not logged."""


def _not_appended(
    services: BrokerServices, topic_partition: TopicPartition, refused: ApiError
) -> PartitionProduceResponse:
    """Return the answer for records that could not be appended, with the log start offset if that is not expected."""
    partition = services.replicas.partitions.get(topic_partition)
    log_start_offset = -1
    if refused.error not in _EXPECTED:
        log.info(
            "error processing append operation",
            partition=str(topic_partition),
            error=refused.error.name,
            why=refused.message,
        )
        if partition is not None and partition.local_log is not None:
            log_start_offset = partition.log.log_start_offset
    return _refused(topic_partition, refused, log_start_offset)


def _refused(
    topic_partition: TopicPartition, refused: ApiError, log_start_offset: int = -1
) -> PartitionProduceResponse:
    record_errors = refused.record_errors if isinstance(refused, RecordValidationError) else ()
    return PartitionProduceResponse(
        index=topic_partition.partition,
        error_code=refused.error,
        base_offset=-1,
        log_start_offset=log_start_offset,
        record_errors=tuple(
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
            for index, message in record_errors
        ),
        error_message=refused.message,
    )


def _response(
    services: BrokerServices,
    request: ProduceRequest,
    results: Mapping[TopicPartition, PartitionProduceResponse],
    context: RequestContext,
) -> ProduceResponse:
    leaders: set[int] = set()
    topics: dict[str, list[PartitionProduceResponse]] = {topic.name: [] for topic in request.topic_data}
    for topic_partition, result in results.items():
        if result.error_code == Errors.NOT_LEADER_OR_FOLLOWER and context.api_version >= WITH_LEADER_HINTS:
            hint = current_leader(services, topic_partition)
            leaders.add(hint.leader_id)
            topics[topic_partition.topic].append(replace(result, current_leader=hint))
        else:
            topics[topic_partition.topic].append(result)
    return ProduceResponse(
        responses=tuple(
            TopicProduceResponse(name=name, partition_responses=tuple(answers)) for name, answers in topics.items()
        ),
        node_endpoints=leader_endpoints(services, leaders, context.listener),
    )


SERVES = Serves(request=ProduceRequest, versions=(0, 11), handle=handle)
