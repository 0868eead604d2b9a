"""Tests of the requests that a picture shows: waiting in a channel, on their way, or to be sent again."""

from __future__ import annotations

import pytest

from tests.foundation.eventlog.lines import Logs
from tests.foundation.eventlog.stories import ChannelsRun
from tests.understudy.page.folding.fold import EventLogPicture, fold_all
from tests.understudy.page.folding.fold_state import MOST_WAITING, Channel
from understudy.foundation.eventlog.records import (
    ChannelClosed,
    ChannelOpened,
    ControllerElected,
    ControllerResigned,
    FaultInjected,
    Payload,
    ProcessExiting,
    ProcessStarted,
    RequestFailed,
    RequestQueued,
    RequestSent,
    ResponseReceived,
)
from understudy.history.reading.reader import read_lines


class Controller:
    """Writes the log of a controller on broker 1, one record a millisecond."""

    def __init__(self) -> None:
        self.logs = Logs()
        self.write(ControllerElected(broker_id=1, epoch=4, epoch_zk_version=4, session_id=1))
        self.write(ChannelOpened(to=2, broker_epoch=22))

    def write(self, payload: Payload, *, cause: int | None = None, node: str = "broker-1", incarnation: int = 1) -> int:
        return self.logs.at(self.logs.clock.now_ms + 1, node, payload, cause=cause, incarnation=incarnation)

    def queue(self, depth: int, *, api: str = "UpdateMetadata", to: int = 2) -> int:
        return self.write(
            RequestQueued(
                to=to, api=api, controller_epoch=4, broker_epoch=22, partitions=3, event="TopicChange", depth=depth
            )
        )

    def send(self, queued: int = 0, *, to: int = 2) -> int:
        return self.write(
            RequestSent(
                to=to,
                api="UpdateMetadata",
                api_version=7,
                client_id="1",
                correlation_id=0,
                controller_epoch=4,
                partitions=3,
                event="TopicChange",
                queued=queued,
            )
        )

    @property
    def picture(self) -> EventLogPicture:
        return fold_all(read_lines(self.logs.lines).records)

    @property
    def channel(self) -> Channel:
        return self.picture.broker(1).channels[2]

    @property
    def shown(self) -> tuple[int, list[int]]:
        """How many wait, and the ids of the first of them."""
        return self.channel.waiting, [each.id for each in self.channel.first]


def test_a_request_waits_from_its_record_until_it_is_sent() -> None:
    controller = Controller()
    controller.send()
    first = controller.queue(1, api="LeaderAndIsr")
    since_us = int(controller.logs.clock.now_ms * 1000)
    second = controller.queue(2)
    assert controller.shown == (2, [first, second])
    waiting = controller.channel.first[0]
    assert (waiting.api, waiting.epoch, waiting.partitions, waiting.event) == ("LeaderAndIsr", 4, 3, "TopicChange")
    assert waiting.since_us == since_us
    controller.send(first)
    assert controller.shown == (1, [second])
    controller.send(second)
    assert controller.shown == (0, [])
    assert len(controller.picture.in_flight) == 1


def test_requests_that_wait_do_not_end_the_one_on_its_way() -> None:
    controller = Controller()
    sent = controller.send()
    controller.queue(1)
    assert list(controller.picture.in_flight) == [controller.channel.in_flight] == [f"broker-1/1/{sent}"]
    answer = ResponseReceived(sender=2, api="UpdateMetadata", client_id="1", correlation_id=0)
    controller.write(answer, cause=sent)
    assert (controller.channel.in_flight, controller.channel.unanswered, controller.channel.waiting) == (None, None, 1)


def test_of_many_only_the_first_are_kept() -> None:
    controller = Controller()
    ids = [controller.queue(depth) for depth in range(1, 31)]
    assert controller.shown == (30, ids[:MOST_WAITING])
    for number, queued in enumerate(ids[:20], start=1):
        controller.send(queued)
        assert controller.shown == (30 - number, ids[number:MOST_WAITING])
    controller.queue(11)
    assert controller.shown == (11, []), "ten that are not kept are before it"
    for queued in ids[20:]:
        controller.send(queued)
    assert controller.shown == (1, [])
    newest = controller.queue(1)
    assert controller.shown == (1, [newest]), "a place says what is true, whatever is missing from the log"


def test_coalesced_requests_replace_those_that_waited() -> None:
    controller = Controller()
    for depth in range(1, 6):
        controller.queue(depth)
    left = [controller.queue(1), controller.queue(2)]
    assert controller.shown == (2, left)


def test_a_request_sent_without_having_waited_removes_nothing() -> None:
    controller = Controller()
    waiting = controller.queue(1)
    controller.send()
    assert controller.shown == (1, [waiting])


def test_a_request_that_failed_is_to_be_sent_again() -> None:
    controller = Controller()
    sent = controller.send(controller.queue(1))
    sent_us = int(controller.logs.clock.now_ms * 1000)
    waiting = controller.queue(1)
    failed = RequestFailed(to=2, api="UpdateMetadata", client_id="1", correlation_id=0, why="reset")
    controller.write(failed, cause=sent)
    unanswered = controller.channel.unanswered
    assert unanswered is not None
    assert (unanswered.id, unanswered.api, unanswered.since_us) == (sent, "UpdateMetadata", sent_us)
    assert controller.picture.in_flight == {}
    controller.write(failed, cause=waiting)
    channel = controller.channel
    assert channel.unanswered == unanswered, "a failure to connect is none of the request"
    controller.send()
    channel = controller.channel
    assert (channel.unanswered, channel.waiting) == (None, 1)


@pytest.mark.parametrize(
    "ends",
    [
        ControllerResigned(epoch=4, why="deposed"),
        ProcessExiting(reason="SIGTERM"),
        ControllerElected(broker_id=1, epoch=6, epoch_zk_version=6, session_id=2),
        ChannelClosed(to=2, broker_epoch=22, dropped=2),
    ],
    ids=lambda ends: type(ends).__name__,
)
def test_nothing_waits_after_the_end_of_a_channel(ends: Payload) -> None:
    controller = Controller()
    controller.queue(1)
    controller.queue(2)
    controller.write(ends)
    assert controller.picture.broker(1).channels == {}


def test_a_channel_to_a_new_registration_is_empty() -> None:
    controller = Controller()
    controller.send()
    controller.queue(1)
    controller.write(ChannelOpened(to=2, broker_epoch=33))
    assert controller.channel == Channel(broker_epoch=33)
    assert controller.picture.in_flight == {}


def test_nothing_waits_in_a_process_that_has_ended() -> None:
    controller = Controller()
    controller.queue(1)
    controller.write(FaultInjected(fault="kill", target="broker-1"), node="testbed")
    controller.queue(2)
    assert controller.picture.broker(1).channels == {}, "also if it wrote on until the fault took effect"
    controller.write(ProcessStarted(role="broker", broker_id=1), incarnation=2)
    controller.queue(3)
    assert controller.picture.broker(1).channels == {}, "a late record of the process before"


def test_a_deposed_controller_that_goes_on_still_has_its_channels() -> None:
    controller = Controller()
    waiting = controller.queue(1)
    elected = ControllerElected(broker_id=3, epoch=5, epoch_zk_version=5, session_id=3)
    controller.write(elected, node="broker-3")
    assert controller.shown == (1, [waiting])


def test_a_channel_that_no_record_opened_has_the_broker_epoch_of_the_request() -> None:
    controller = Controller()
    controller.queue(5, to=7)
    channel = controller.picture.broker(1).channels[7]
    assert (channel.broker_epoch, channel.waiting, channel.first) == (22, 5, ())


@pytest.mark.parametrize("seed", range(8))
def test_the_count_is_that_of_the_channels(seed: int) -> None:
    run = ChannelsRun(seed, records=400)
    picture = fold_all(read_lines(run.logs.lines).records)
    shown = {
        (name, to): channel
        for name, node in picture.nodes.items()
        for to, channel in node.channels.items()
        if channel.waiting
    }
    assert {key: channel.waiting for key, channel in shown.items()} == {
        key: len(ids) for key, ids in run.waiting.items() if ids
    }
    for key, channel in shown.items():
        known = [each.id for each in channel.first]
        assert known == run.waiting[key][: len(known)]
        assert len(known) <= MOST_WAITING
