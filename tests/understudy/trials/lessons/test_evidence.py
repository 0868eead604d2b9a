"""What the steps of a lesson show of the picture: the parts that its file names, or those that its records prove."""

from __future__ import annotations

from typing import Any

import pytest

from tests.understudy.checks.histories import envelope
from understudy.clusters.problems import BadValue
from understudy.foundation.eventlog.records import BrokerRegistered, FaultInjected
from understudy.trials.lessons.document import Stop
from understudy.trials.lessons.evidence import parse_part, shown_at
from understudy.trials.lessons.measurements import AtStop

KILLED = AtStop(envelope(FaultInjected(fault="kill", target="broker-1001"), node="testbed"), 0.0)


def stop(*show: str) -> Stop:
    return Stop(line=1, name="killed", find="FaultInjected", headline="", text="", show=show)


def value(name: str) -> Any:
    if name == "stop.killed.target":
        return "broker-1001"
    if name == "stop.killed.id":
        return 1001
    raise BadValue(name)


def test_a_stop_without_parts_shows_what_its_record_proves() -> None:
    assert shown_at(stop(), KILLED, value) == ("process:broker-1001", "session:broker-1001")


def test_parts_have_the_values_of_stops_as_they_are() -> None:
    show = ("replica:{stop.killed.target}:orders-0", "process:broker-{stop.killed.id}")
    assert shown_at(stop(*show), KILLED, value) == ("replica:broker-1001:orders-0", "process:broker-1001")


def test_a_part_with_a_value_that_the_run_lacks_is_left_out() -> None:
    assert shown_at(stop("fence:{stop.late.node}", "queue:broker-1"), KILLED, value) == ("queue:broker-1",)
    assert shown_at(stop("fence:{stop.late.node}"), KILLED, value) == ("process:broker-1001", "session:broker-1001")


def test_a_stop_that_the_run_lacks_shows_nothing() -> None:
    assert shown_at(stop("queue:broker-1"), None, value) == ()


def test_the_last_place_of_a_part_may_contain_colons() -> None:
    assert parse_part("group:broker-1:team:payments") == "group:broker-1:team:payments"
    with pytest.raises(BadValue, match="expected isr:PARTITION"):
        parse_part("isr:")


def test_a_broker_that_registers_is_shown_in_zookeeper() -> None:
    at = AtStop(envelope(BrokerRegistered(broker_id=1, broker_epoch=5, session_id=7)), 0.0)
    assert shown_at(stop(), at, value) == ("znode:/brokers/ids", "session:broker-1")
