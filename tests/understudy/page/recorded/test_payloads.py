"""Tests of `page_data`: payloads as the page gets them, with every field, and integers that a browser would round."""

from __future__ import annotations

import pytest

from tests.foundation.eventlog.lines import Logs
from understudy.foundation.eventlog.records import (
    BrokerRegistered,
    Envelope,
    Payload,
    RequestDetail,
    ResponseReceived,
    SessionOpened,
)
from understudy.history.reading.reader import read_lines
from understudy.page.recorded.payloads import page_data


def record_of(payload: Payload) -> Envelope:
    logs = Logs()
    logs.at(1000, "broker-1", payload)
    (record,) = read_lines(logs.lines).records
    return record


def test_every_field_is_there_also_one_with_its_default() -> None:
    data = page_data(record_of(ResponseReceived(sender=2, api="LeaderAndIsr", client_id="1", correlation_id=7)))
    assert data["error"] == "NONE"
    assert (data["took_ms"], data["refused_count"], list(data["refused"])) == (0.0, 0, [])


@pytest.mark.parametrize(
    ("session_id", "text"),
    [(1, "0x1"), (0, "0x0"), (72057594037927938, "0x100000000000002"), (-(2**63), "0x8000000000000000")],
)
def test_session_ids_are_texts_as_zookeeper_writes_them(session_id: int, text: str) -> None:
    assert page_data(record_of(SessionOpened(session_id=session_id, timeout_ms=6000))) == {
        "session_id": text,
        "timeout_ms": 6000,
    }


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        (2**53 - 1, 2**53 - 1),
        (2**53, "0x20000000000000"),
        (1 - 2**53, 1 - 2**53),
        (-(2**53), "-0x20000000000000"),
    ],
)
def test_integers_that_a_double_rounds_are_texts(epoch: int, expected: object) -> None:
    data = page_data(record_of(BrokerRegistered(broker_id=1, broker_epoch=epoch, session_id=5)))
    assert data == {"broker_id": 1, "broker_epoch": expected, "session_id": "0x5"}


def test_integers_inside_of_lists_and_objects_too() -> None:
    request: dict[str, object] = {"a": [{"b": 2**60}, True, 0.1 + 0.2, "1234567890123456789"]}
    detail = RequestDetail(api="Fetch", api_version=1, client_id="", correlation_id=0, request=request, response={})
    found = page_data(record_of(detail))["request"]
    assert found == {"a": [{"b": "0x1000000000000000"}, True, 0.1 + 0.2, "1234567890123456789"]}
    assert found["a"][1] is True
