"""Our request batches have the bytes that Apache Kafka 3.9.1's controller sent, at eleven protocol versions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pytest
from msgspec.structs import replace

from tests.controller.values import ids, led, replicas, tp
from understudy.controller.channels.request_batch import ControlRequest, RequestBatch
from understudy.controller.channels.request_shapes import ControlMessage, in_version
from understudy.controller.context import ControllerContext
from understudy.foundation.cluster.broker import Broker, BrokerAndEpoch, EndPoint, SecurityProtocol
from understudy.foundation.cluster.identifiers import BrokerId, TopicId
from understudy.foundation.cluster.metadata_version import MetadataVersion
from understudy.foundation.wire.headers import decode_request, encode_request
from understudy.foundation.wire.messages.leader_and_isr import LeaderAndIsrRequest
from understudy.foundation.wire.messages.update_metadata import UpdateMetadataRequest

RECORDED = json.loads((Path(__file__).parents[1] / "golden" / "frames.json").read_text())
PARTITIONS = [tp("orders-0"), tp("orders-1")]
RECEIVERS = ids(101, 102)
TOPIC_ID = TopicId("AAECAwQFBgcICQoLDA0ODw")

Place: TypeAlias = tuple[int, int]
"""(receiver, correlation id)."""


class Sent(NamedTuple):
    api: str
    version: int
    frame: bytes


@pytest.mark.spec("RB-7", "RB-8", "RB-9", "IO-3")
@pytest.mark.parametrize("version", list(dict.fromkeys(recorded["ibp"] for recorded in RECORDED)))
def test_requests_equal_kafkas_frames(version: str) -> None:
    kafkas = dict(_kafkas(version))
    ours = dict(_ours(MetadataVersion.parse(version), _ports(kafkas.values())))
    assert {place: ours[place] for place in kafkas} == kafkas


def test_every_control_request_was_compared() -> None:
    kinds = {(recorded["request"], recorded["version"]) for recorded in RECORDED}
    assert len(kinds) == 8 + 5 + 7


def _ours(version: MetadataVersion, ports: dict[int, int]) -> Iterator[tuple[Place, Sent]]:
    """Our requests in the situations of the recording: brokers start, a topic is created, queued for deletion, stopped
    and deleted."""
    next_ids = dict.fromkeys(RECEIVERS, 0)
    for requests in _stations(version, _cluster(ports)):
        for request in requests:
            if request.broker_id in next_ids:
                correlation_id = next_ids[request.broker_id]
                next_ids[request.broker_id] += 1
                yield (request.broker_id, correlation_id), _sent(_frame(request, correlation_id))


def _stations(version: MetadataVersion, cluster: ControllerContext) -> Iterator[list[ControlRequest]]:
    def batch() -> RequestBatch:
        return RequestBatch(cluster, BrokerId(0), "PLAINTEXT", version)

    introduction = batch()
    introduction.add_update_metadata(RECEIVERS)
    yield introduction.requests()

    cluster.put_leadership({PARTITIONS[0]: led(101, (101, 102), by=1), PARTITIONS[1]: led(102, (102, 101), by=1)})
    creation = batch()
    for partition in PARTITIONS:
        creation.add_leader_and_isr(RECEIVERS, partition, is_new=True)
    yield creation.requests()

    cluster.topics_to_be_deleted.add("orders")
    queued = batch()
    queued.add_update_metadata(RECEIVERS, PARTITIONS)
    yield queued.requests()

    for delete in (False, True):
        stop = batch()
        for broker in RECEIVERS:
            for partition in PARTITIONS:
                stop.add_stop_replica(broker, (partition,), delete=delete)
        yield stop.requests()


def _cluster(ports: dict[int, int]) -> ControllerContext:
    cluster = ControllerContext(epoch=1, epoch_zk_version=1)
    known = {0: (None, 2), 101: ("r1", 4), 102: ("r0", 6)}
    for broker, (rack, epoch) in known.items():
        endpoint = EndPoint("PLAINTEXT", SecurityProtocol.PLAINTEXT, "127.0.0.1", ports[broker])
        registered = Broker(id=BrokerId(broker), endpoints=(endpoint,), rack=rack)
        cluster.add_live_brokers({BrokerId(broker): BrokerAndEpoch(registered, epoch)})
    cluster.all_topics.add("orders")
    cluster.add_topic_id("orders", TOPIC_ID)
    for partition, assignment in zip(PARTITIONS, (replicas(101, 102), replicas(102, 101)), strict=True):
        cluster.update_partition_assignment(partition, assignment)
    return cluster


def _frame(request: ControlRequest, correlation_id: int) -> bytes:
    """The frame of a request, as `BrokerChannel` sends it."""
    body = None if request.body is None else request.body.at(request.broker_epoch)
    message = in_version(request.message, request.version)
    return encode_request(message, request.version, correlation_id, "0", body=body)[4:]


def _kafkas(version: str) -> Iterator[tuple[Place, Sent]]:
    for recorded in RECORDED:
        if recorded["ibp"] == version:
            sent = _sent(bytes.fromhex(recorded["hex"]))
            assert (sent.api, sent.version) == (recorded["request"] + "Request", recorded["version"])
            yield (recorded["to"], decode_request(sent.frame)[0].correlation_id), sent


def _sent(frame: bytes) -> Sent:
    """Brokers in order of their ids: Kafka names them in the order of a hash set."""
    header, message = decode_request(frame)
    assert isinstance(message, ControlMessage)
    match message:
        case LeaderAndIsrRequest():
            message = replace(
                message, live_leaders=tuple(sorted(message.live_leaders, key=lambda leader: leader.broker_id))
            )
        case UpdateMetadataRequest():
            message = replace(message, live_brokers=tuple(sorted(message.live_brokers, key=lambda broker: broker.id)))
    ordered = encode_request(message, header.api_version, header.correlation_id, header.client_id)[4:]
    return Sent(type(message).__name__, header.api_version, ordered)


def _ports(sent: Iterable[Sent]) -> dict[int, int]:
    """The ports of a recording, which differ between recordings."""
    for _, _, frame in sent:
        _, message = decode_request(frame)
        if isinstance(message, UpdateMetadataRequest):
            return {broker.id: broker.endpoints[0].port for broker in message.live_brokers}
    raise AssertionError("every recording begins with an UpdateMetadata")
