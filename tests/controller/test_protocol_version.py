"""Tests of the controller with an older `inter.broker.protocol.version`: what it writes, reads and sends."""

from __future__ import annotations

from typing import Any

import pytest

from tests.controller.harness import TermHarness, answer_none
from tests.controller.values import ids, replicas, tp
from understudy.controller.broker_lifecycle import process_leader_and_isr_response
from understudy.controller.events import FeatureUpdate, LeaderAndIsrResponseReceived, Reply, UpdateFeatures
from understudy.controller.features import process_update_features, setup_feature_versioning, versioned
from understudy.controller.settings import ControllerSettings
from understudy.controller.topic_changes import load_topics, process_topic_change
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import BrokerId, TopicId
from understudy.foundation.cluster.metadata_version import MetadataVersion
from understudy.foundation.eventlog.records import Refused, RequestSent, ResponseReceived
from understudy.foundation.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
)
from understudy.foundation.wire.schema import Message
from understudy.foundation.zk.admin_znodes import Features
from understudy.foundation.zk.znodes import TopicZNode

parse = MetadataVersion.parse
KEPT = TopicId("AAECAwQFBgcICQoLDA0ODw")


def harness(version: str, topics: dict[str, dict[int, list[int]]] | None = None) -> TermHarness:
    return TermHarness(topics, settings=ControllerSettings(inter_broker_protocol_version=parse(version)))


@pytest.mark.spec("FO-1", "ZN-7")
@pytest.mark.parametrize(
    ("version", "current", "wanted"),
    [
        ("3.9", None, Features(2, True, {})),
        ("3.2", None, Features(1, True, {})),
        ("2.7-IV0", Features(1, False, {"f": 1}), Features(1, True, {})),
        ("3.3-IV0", Features(1, True, {"f": 1}), Features(2, True, {"f": 1})),
        ("2.6", None, Features(1, False, {})),
        ("2.6", Features(2, True, {"f": 1}), Features(1, False, {})),
    ],
)
def test_versioned_feature_znode(version: str, current: Features | None, wanted: Features) -> None:
    assert versioned(current, parse(version)) == wanted


@pytest.mark.spec("FO-1")
def test_old_protocol_version_disables_features_without_waiting() -> None:
    with harness("2.6") as room:
        room.run(setup_feature_versioning(room.term))
        assert room.znodes()["/feature"] == b'{"features":{},"version":1,"status":0}'


def test_old_protocol_version_refuses_feature_updates() -> None:
    async def asked(room: TermHarness) -> Any:
        reply: Reply[Any] = Reply()
        process_update_features(
            room.term, UpdateFeatures((FeatureUpdate(feature="f", level=1, upgrade_type=None),), reply)
        )
        return await reply.wait()

    with harness("2.6") as room:
        refused = room.run(asked(room))
        assert isinstance(refused, ApiError)
        assert (refused.error, refused.message) == (Errors.INVALID_REQUEST, "Feature versioning system is disabled.")


@pytest.mark.spec("FO-5", "ZN-5")
def test_old_protocol_version_assigns_no_topic_ids() -> None:
    made_by_hand = TopicZNode.encode(None, {0: replicas(0, 1)})
    with harness("2.7") as room:
        room.write_znode("/brokers/topics/t", made_by_hand)
        room.run(process_topic_change(room.term))
        assert room.term.context.topic_ids == {}
        assert room.znodes()["/brokers/topics/t"] == made_by_hand
        state = room.known("t-0")
        assert state is not None
        assert state.leader_and_isr.isr == ids(0, 1)


@pytest.mark.spec("FO-5", "ZN-5")
def test_old_protocol_version_keeps_existing_topic_ids() -> None:
    """KAFKA-12835: after a downgrade the ids must not be lost."""
    with harness("2.6") as room:
        room.create_topic("t", {0: [0, 1]}, topic_id=KEPT)
        found = room.run(room.term.zk.topics.assignments(["t"]))
        room.term.context.all_topics.add("t")
        room.run(load_topics(room.term, found))
        assert room.term.context.topic_ids == {"t": KEPT}
        assert room.run(room.term.zk.topics.assignments(["t"]))["t"].topic_id == KEPT


def by_name(error: Errors) -> LeaderAndIsrResponse:
    return LeaderAndIsrResponse(
        partition_errors=(
            LeaderAndIsrPartitionError(topic_name="t", partition_index=0, error_code=error),
            LeaderAndIsrPartitionError(topic_name="t", partition_index=1, error_code=Errors.NONE),
        )
    )


@pytest.mark.spec("SN-6")
def test_storage_errors_are_read_by_topic_name() -> None:
    with harness("2.6", {"t": {0: [1, 0], 1: [1, 0]}}) as room:
        term, broker = room.term, BrokerId(1)

        def answer(error: Errors) -> None:
            epoch = term.context.broker_epoch(broker)
            assert epoch is not None
            event = LeaderAndIsrResponseReceived(broker, term.context.epoch, epoch, by_name(error))
            room.run(process_leader_and_isr_response(term, event))

        answer(Errors.KAFKA_STORAGE_ERROR)
        assert term.context.replicas_on_offline_dirs == {broker: {tp("t-0")}}
        answer(Errors.NONE)
        assert term.context.replicas_on_offline_dirs == {broker: set()}


@pytest.mark.spec("BK-12")
def test_refusals_are_recorded_by_topic_name() -> None:
    def refuse(message: Message) -> Message | None:
        return (
            by_name(Errors.STALE_CONTROLLER_EPOCH) if isinstance(message, LeaderAndIsrRequest) else answer_none(message)
        )

    with harness("2.6") as room:
        room.broker(1).answer = refuse
        room.create_topic("t", {0: [1], 1: [1]})
        room.run(process_topic_change(room.term))
        room.settle()
        received = [data for data in room.controller.records(ResponseReceived) if data.api == "LeaderAndIsr"]
        assert [(data.refused, data.refused_count) for data in received] == [
            ((Refused("t", 0, "STALE_CONTROLLER_EPOCH"),), 1)
        ]
        assert [data.api_version for data in room.controller.records(RequestSent) if data.api == "LeaderAndIsr"] == [4]
