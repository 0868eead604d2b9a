"""Every line of a controller's event names the event and the epoch, without its caller passing them on."""

from __future__ import annotations

import logging

import pytest

from tests.controller.harness import ControllerHarness
from tests.controller.values import tp
from tests.operators_log import Line, operators_log
from understudy.controller.events import ElectionType
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.eventlog.records import EventStarted, RequestSent

CONTROLLER = "kafka.controller.KafkaController"
STATES = "state.change.logger"


def context_of(line: Line) -> tuple[object, object]:
    return line.fields.get("controller_event"), line.fields.get("controller_epoch")


@pytest.mark.spec("LG-16", "LG-18")
def test_lines_name_the_event_in_progress_and_the_epoch() -> None:
    with operators_log(logging.DEBUG) as lines, ControllerHarness(electable=(0,), brokers=(1, 2)) as harness:
        harness.start()
        harness.create_topic("orders", {0: [1, 0], 1: [0, 1]})
        harness.broker(1).crash()
        controller = harness.broker(0)
        controller.run(controller.controller.elect_leaders([tp("orders-0")], ElectionType.PREFERRED))
        events = {record.event for record in controller.records(EventStarted)}
    state_changes = {context_of(line) for line in lines if line.logger == STATES and "sender" not in line.fields}
    assert state_changes == {
        ("Startup", 1),
        ("BrokerChange", 1),
        ("TopicChange", 1),
        ("ReplicaLeaderElection", 1),
    }
    assert {name for name, _ in state_changes} <= events
    (elected,) = [line for line in lines if line.text == "elected as the controller"]
    assert context_of(elected) == ("Startup", 1), "the epoch is that of the line, before it is bound"


@pytest.mark.spec("LG-14", "LG-18")
def test_lines_of_a_channel_name_the_event_whose_request_it_sends() -> None:
    """The task of a channel is started by the event that opens it, whose name must not stay in later lines."""
    with operators_log(logging.DEBUG) as lines, ControllerHarness(electable=(0,), brokers=(1,)) as harness:
        harness.start()
        harness.create_topic("orders", {0: [1]})
        harness.create_topic("payments", {0: [1]})
        sent = [record for record in harness.broker(0).records(RequestSent) if record.to == BrokerId(1)]
    responses = [line for line in lines if line.text == "received response" and line.fields["sender"] == 1]
    assert [context_of(line) for line in responses] == [(record.event, 1) for record in sent]
    assert {record.event for record in sent} == {"BrokerChange", "TopicChange"}


@pytest.mark.spec("RS-1", "EL-4")
def test_a_controller_that_has_resigned_logs_no_epoch_any_more() -> None:
    with operators_log(logging.DEBUG) as lines, ControllerHarness(electable=(0, 1), brokers=()) as harness:
        harness.start()
        before = len(lines)
        harness.broker(0).expire()
    after = [line for line in lines[before:] if line.logger == CONTROLLER]
    (resigned,) = [line for line in after if line.text == "resigned"]
    assert context_of(resigned) == ("Expire", 1)
    (loser,) = [line for line in after if line.text == "there is a controller already"]
    assert context_of(loser) == ("RegisterBrokerAndReelect", None)
    (winner,) = [line for line in after if line.text == "ready to serve as the new controller"]
    assert context_of(winner) == ("Reelect", 2)
