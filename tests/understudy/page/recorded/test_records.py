"""Records as the page gets them, and which record on another node led to each."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from tests.foundation.eventlog.lines import Logs
from understudy.foundation.eventlog.records import (
    ControllerElected,
    Envelope,
    RequestReceived,
    RequestSent,
    ZkWrite,
    ZkWriteDone,
)
from understudy.history.reading.lines import decode_record
from understudy.history.reading.order import RemoteCauses, identity_of, remote_causes
from understudy.history.reading.reader import read, read_lines
from understudy.page.recorded.payloads import page_data
from understudy.page.recorded.records import Encoder
from understudy.trials.seeds.seeds import run_seed


def encoded(logs: Logs) -> list[list[object]]:
    encoder = Encoder()
    return [json.loads(line) for line in encoder.encode(read_lines(logs.lines).records)]


def test_a_record_is_an_array_of_eleven_values() -> None:
    logs = Logs()
    logs.node("broker-1").saw_controller_epoch(7)
    logs.at(1000.5, "broker-1", ControllerElected(broker_id=1, epoch=7, epoch_zk_version=6, session_id=2**56 + 1))
    assert encoded(logs) == [
        [
            1_000_500,
            "broker-1",
            1,
            1,
            "ControllerElected",
            None,
            0,
            7,
            # As a number it would lose its last digit in JavaScript.
            {"broker_id": 1, "epoch": 7, "epoch_zk_version": 6, "session_id": "0x100000000000001"},
            "wins the election: controller epoch 7",
            None,
        ]
    ]


def test_a_failed_write_that_is_part_of_each_takeover_is_named_in_the_words_of_its_outcome() -> None:
    path = "/admin/preferred_replica_election"
    logs = Logs()
    logs.at(1000, "broker-1", ZkWrite(purpose="preferred-election", paths=(path,), operations=1, fenced=True))
    logs.at(1001, "broker-1", ZkWriteDone(outcome="NoNode"), cause=1)
    assert encoded(logs)[1][9] == f"finds no {path} to delete: no leader election was requested"


def test_a_received_request_is_linked_to_the_one_that_was_sent() -> None:
    logs = Logs()
    about = {"api": "LeaderAndIsr", "api_version": 7, "client_id": "controller-1", "correlation_id": 4}
    logs.at(1000, "broker-1", RequestSent(to=2, **about))  # type: ignore[arg-type]  # fields of several types
    logs.at(1001, "broker-2", RequestReceived(**about))  # type: ignore[arg-type]  # fields of several types
    logs.at(1002, "broker-3", RequestReceived(**about))  # type: ignore[arg-type]  # fields of several types
    assert [record[-1] for record in encoded(logs)] == [None, ["broker-1", 1, 1], None]


@pytest.mark.parametrize("seed", [1, 7])
def test_links_found_one_after_the_other_are_those_of_the_whole_log(seed: int, tmp_path: Path) -> None:
    run_seed(seed, 6, events=tmp_path)
    records = read([tmp_path]).records
    whole = remote_causes(records)
    causes = RemoteCauses()
    found = {identity_of(record): causes.of(record) for record in records}
    assert len(whole) > 50
    assert {identity: cause for identity, cause in found.items() if cause is not None} == whole


def test_messages_that_are_never_received_are_forgotten() -> None:
    causes = RemoteCauses(most=2)
    logs = Logs()
    for number in (1, 2, 3):
        logs.at(
            1000 + number,
            "broker-1",
            RequestSent(to=2, api="StopReplica", api_version=4, client_id="c", correlation_id=number),
        )
    for number in (1, 2, 3):
        logs.at(
            1010 + number,
            "broker-2",
            RequestReceived(api="StopReplica", api_version=4, client_id="c", correlation_id=number),
        )
    found = [causes.of(record) for record in read_lines(logs.lines).records]
    assert [cause.seq if cause else None for cause in found] == [None, None, None, None, 2, 3]


SAMPLES = [
    decode_record(line)
    for path in sorted((Path(__file__).parents[3] / "foundation" / "eventlog" / "samples").glob("version-*.jsonl"))
    for line in path.read_bytes().splitlines()
]


@pytest.mark.parametrize("record", SAMPLES, ids=lambda record: record.type)
def test_every_payload_is_the_one_that_the_folds_read(record: Envelope) -> None:
    assert json.loads(Encoder().encode([record])[0])[8] == json.loads(msgspec.json.encode(page_data(record)))
