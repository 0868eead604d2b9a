"""Control requests recorded from Apache Kafka 3.9.1's controller, in every version it can be configured to send."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pytest

from understudy.foundation.wire.headers import decode_request, encode_request
from understudy.foundation.wire.messages.leader_and_isr import LeaderAndIsrRequest
from understudy.foundation.wire.messages.stop_replica import StopReplicaRequest
from understudy.foundation.wire.messages.update_metadata import UpdateMetadataRequest
from understudy.foundation.wire.registry import api_by_key, api_of


class Frame(NamedTuple):
    request: str
    version: int
    raw: bytes
    inter_broker_protocol: str


FRAMES = [
    Frame(recorded["request"], recorded["version"], bytes.fromhex(recorded["hex"]), recorded["ibp"])
    for recorded in json.loads((Path(__file__).parents[2] / "golden" / "frames.json").read_text())
]


@pytest.mark.parametrize(
    "frame", FRAMES, ids=[f"{f.request}-v{f.version}-ibp{f.inter_broker_protocol}" for f in FRAMES]
)
def test_a_recorded_request_is_read_and_written_back_byte_for_byte(frame: Frame) -> None:
    header, message = decode_request(frame.raw)
    api = api_by_key(header.api_key)
    assert api is api_of(message)
    assert (api.name, header.api_version) == (frame.request, frame.version)
    written = encode_request(message, header.api_version, header.correlation_id, header.client_id)
    assert written == len(frame.raw).to_bytes(4) + frame.raw


def test_the_recordings_cover_all_versions_of_control_requests() -> None:
    versions = {
        request: {f.version for f in FRAMES if f.request == request} for request in sorted({f.request for f in FRAMES})
    }
    assert versions == {
        "LeaderAndIsr": set(range(8)),
        "StopReplica": set(range(5)),
        "UpdateMetadata": {1, *range(3, 9)},
    }


@pytest.mark.spec("IO-3")
def test_a_recorded_request_has_the_expected_fields() -> None:
    messages = [decode_request(f.raw) for f in FRAMES if f.inter_broker_protocol == "3.9-IV0"]
    creation = next(m for _, m in messages if isinstance(m, LeaderAndIsrRequest) and m.topic_states)
    assert not creation.is_kraft_controller
    assert [state.topic_name for state in creation.topic_states] == ["orders"]
    for state in creation.topic_states:
        assert all(p.is_new and p.leader in p.isr and set(p.isr) <= set(p.replicas) for p in state.partition_states)
    assert any(isinstance(m, UpdateMetadataRequest) and len(m.live_brokers) == 3 for _, m in messages)
    deletion = [m for _, m in messages if isinstance(m, StopReplicaRequest)]
    assert any(p.delete_partition for m in deletion for t in m.topic_states for p in t.partition_states)
    assert {header.client_id for header, _ in messages} == {"0"}
