"""Records of many nodes come in one order, whichever of its two ways finds it."""

from __future__ import annotations

import random

import pytest

from tests.foundation.eventlog.lines import Logs
from tests.foundation.eventlog.stories import RandomRun, killed_controller
from understudy.foundation.eventlog.records import Envelope, RequestReceived, RequestSent
from understudy.history.reading import order
from understudy.history.reading.lines import decode_record
from understudy.history.reading.order import in_order


def records_of(logs: Logs) -> list[Envelope]:
    return [decode_record(line) for lines in logs.lines.values() for line in lines]


def merged(records: list[Envelope], monkeypatch: pytest.MonkeyPatch) -> list[Envelope]:
    with monkeypatch.context() as patch:
        patch.setattr(order, "_is_in_order", lambda records, causes: False)
        return list(in_order(records))


@pytest.mark.parametrize("seed", range(30))
def test_the_clocks_order_is_that_of_the_merge_where_it_contradicts_nothing(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = records_of(killed_controller() if seed == 0 else RandomRun(seed, records=200).logs)
    random.Random(seed).shuffle(records)
    assert list(in_order(records)) == merged(records, monkeypatch)


@pytest.mark.parametrize("received_ms", [1001, 1000, 999])
def test_a_request_is_sent_before_it_is_received(received_ms: float) -> None:
    """Also if the clock says otherwise, or says nothing because both times are equal."""
    logs = Logs()
    about = {"api": "LeaderAndIsr", "api_version": 7, "client_id": "c", "correlation_id": 4}
    logs.at(1000, "broker-2", RequestSent(to=1, **about))  # type: ignore[arg-type]  # fields of several types
    logs.at(received_ms, "broker-1", RequestReceived(**about))  # type: ignore[arg-type]  # fields of several types
    assert [record.node for record in in_order(records_of(logs))] == ["broker-2", "broker-1"]


def test_a_clock_that_goes_back_does_not_change_a_sequence() -> None:
    logs = Logs()
    about = {"to": 1, "api": "LeaderAndIsr", "api_version": 7, "client_id": "c"}
    for number, ms in enumerate((1000, 900, 950)):
        logs.at(ms, "broker-2", RequestSent(correlation_id=number, **about))  # type: ignore[arg-type]  # fields of several types
    assert [record.seq for record in in_order(records_of(logs))] == [1, 2, 3]
