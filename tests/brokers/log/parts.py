"""Logs and batches for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from understudy.brokers.config.kafka_config import KafkaConfig
from understudy.brokers.config.log_config import LogConfig, log_config
from understudy.brokers.log.log_files import folder_name
from understudy.brokers.log.partition_log import PartitionLog
from understudy.brokers.world import Disk
from understudy.clusters.simulated.disk import SimulatedDisk
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from understudy.foundation.records.compression import Compression
from understudy.foundation.records.record import Record, encode_records

NOW_MS = 1_700_000_000_000
ORDERS_0 = TopicPartition("orders", 0)
A_DAY_MS = 24 * 60 * 60 * 1000


def config(**overrides: object) -> LogConfig:
    """The default configuration of logs, with topic configs such as `segment_bytes=1000`."""
    texts = {name.replace("_", "."): str(value) for name, value in overrides.items()}
    return log_config("orders", texts, KafkaConfig())


def batch(
    *values: bytes,
    offset: int = 0,
    timestamp: int = NOW_MS,
    leader_epoch: int = -1,
    compression: Compression = Compression.NONE,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    keys: Sequence[bytes | None] | None = None,
) -> bytes:
    """A batch with a record for each value, their timestamps one millisecond apart."""
    return encode_records(
        [
            Record(offset + place, timestamp + place, None if keys is None else keys[place], value)
            for place, value in enumerate(values)
        ],
        leader_epoch=leader_epoch,
        compression=compression,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
    )


def open_log(
    disk: Disk | None = None,
    topic_partition: TopicPartition = ORDERS_0,
    *,
    log_config: LogConfig | None = None,
    now_ms: float = NOW_MS,
    **loading: object,
) -> PartitionLog:
    """Open a log, on a new disk if none is given."""
    arguments: Mapping[str, object] = {"had_clean_shutdown": False, **loading}
    return PartitionLog.load(
        topic_partition,
        disk=SimulatedDisk() if disk is None else disk,
        folder=folder_name(topic_partition),
        config=config() if log_config is None else log_config,
        producer_expiration_ms=A_DAY_MS,
        now_ms=now_ms,
        **arguments,  # type: ignore[arg-type]  # the names of `PartitionLog.load`
    )


def log_with(
    *,
    log_start_offset: int = 0,
    log_end_offset: int = 0,
    high_watermark: int | None = None,
    first_unstable_offset: int | None = None,
    leader_epoch: int = 0,
) -> PartitionLog:
    """A log with one record to a batch, from offset 0 to `log_end_offset`, and with the other offsets as given."""
    opened = open_log()
    for offset in range(log_end_offset):
        data = batch(b"%d" % offset, offset=offset, leader_epoch=leader_epoch)
        if offset == first_unstable_offset:
            data = batch(
                b"%d" % offset,
                offset=offset,
                leader_epoch=leader_epoch,
                producer_id=7,
                producer_epoch=0,
                base_sequence=0,
                is_transactional=True,
            )
        opened.append_as_follower(data, now_ms=NOW_MS)
    opened.update_high_watermark(log_end_offset if high_watermark is None else high_watermark)
    opened.maybe_increment_log_start_offset(log_start_offset)
    return opened
