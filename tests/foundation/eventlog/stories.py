"""Event logs of invented runs: one written by hand, whose numbers can be checked by reading it, and random ones."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.foundation.eventlog.lines import Logs
from understudy.foundation.eventlog.log import EventLog
from understudy.foundation.eventlog.records import (
    AnswerInjected,
    BecameCandidate,
    BrokerRegistered,
    BrokersChanged,
    ChannelClosed,
    ChannelOpened,
    ContextLoaded,
    ControllerElected,
    ControllerReady,
    ControllerResigned,
    ElectionLost,
    EventEnded,
    EventPreempted,
    EventQueued,
    EventStarted,
    FaultInjected,
    FenceHit,
    Leadership,
    LeadershipNotWritten,
    LeadershipWritten,
    MetadataUpdated,
    Payload,
    PointReached,
    ProcessExiting,
    ProcessStarted,
    Refused,
    RequestDetail,
    RequestFailed,
    RequestQueued,
    RequestReceived,
    RequestSent,
    ResponseReceived,
    ResponseSent,
    RunDescribed,
    SessionExpiredRecord,
    SessionOpened,
    StepReached,
    TopicsChanged,
    WatchFiredRecord,
    ZkWrite,
    ZkWriteDone,
)

GONE = WatchFiredRecord(path="/controller", kind="deleted")


def killed_controller(run: str = "run-1") -> Logs:
    """Three brokers and `orders` with two partitions: broker 1, controller and leader, is killed and restarted.

    Time begins at 1000 ms. Broker 1 is killed at 3000; its death is noticed at 6000; another controller is elected at
    6010, ready at 6050, and has its last response at 6080.
    """
    logs = Logs(run=run)
    at = logs.at
    at(1000, "testbed", ProcessStarted(role="testbed"))
    for broker in (1, 2, 3):
        at(1000 + broker, f"broker-{broker}", ProcessStarted(role="broker", broker_id=broker))
        at(
            1100 + broker,
            f"broker-{broker}",
            BrokerRegistered(broker_id=broker, broker_epoch=10 + broker, session_id=broker),
        )
    event = at(1200, "broker-1", EventStarted(event_id=1, event="Startup", queued_ms=0.25))
    at(1210, "broker-1", ControllerElected(broker_id=1, epoch=1, epoch_zk_version=1, session_id=1), cause=event)
    at(1211, "broker-2", ElectionLost(winner=1))
    at(1212, "broker-3", ElectionLost(winner=1))
    at(1215, "broker-1", ContextLoaded(epoch=1, live_brokers=((1, 11), (2, 12), (3, 13)), partitions=(), took_ms=4))
    at(1230, "broker-1", ControllerReady(epoch=1, brokers=(1, 2, 3), topics=0, partitions=0, took_ms=20))
    at(1231, "broker-1", EventEnded(event_id=1, event="Startup", took_ms=31), cause=event)
    at(1500, "testbed", StepReached(step="a topic"))
    event = at(1600, "broker-1", EventStarted(event_id=2, event="TopicChange", queued_ms=0.5))
    at(1601, "broker-1", TopicsChanged(new=("orders",), deleted=()), cause=event)
    orders = (Leadership("orders", 0, 1, 0, (1, 2, 3), 0, 1), Leadership("orders", 1, 2, 0, (2, 3, 1), 0, 1))
    at(1610, "broker-1", LeadershipWritten(why="initialise", partitions=orders), cause=event)
    _request(logs, 1620, 1, 2, 5, "LeaderAndIsr", "TopicChange", event, partitions=2)
    at(1640, "broker-1", EventEnded(event_id=2, event="TopicChange", took_ms=40), cause=event)

    at(2990, "broker-1", StepReached(step="the last sign"))
    at(3000, "testbed", FaultInjected(fault="kill", target="broker-1", role="controller"))
    at(6000, "broker-3", GONE)
    at(6001, "broker-2", GONE)
    event = at(6002, "broker-2", EventStarted(event_id=1, event="Reelect", queued_ms=1))
    at(6010, "broker-2", ControllerElected(broker_id=2, epoch=2, epoch_zk_version=2, session_id=2), cause=event)
    at(6011, "broker-3", ElectionLost(winner=2))
    at(6020, "broker-2", ContextLoaded(epoch=2, live_brokers=((2, 12), (3, 13)), partitions=orders, took_ms=9))
    moved = (Leadership("orders", 0, 2, 1, (2, 3), 1, 2),)
    write = at(6024, "broker-2", ZkWrite(purpose="leader-and-isr", paths=(), operations=1, fenced=True), cause=event)
    at(6029, "broker-2", ZkWriteDone(outcome="Ok"), cause=write)
    at(6030, "broker-2", LeadershipWritten(why="offline", partitions=moved), cause=event)
    shrunk = (Leadership("orders", 1, 2, 1, (2, 3), 1, 2),)
    at(6040, "broker-2", LeadershipWritten(why="isr-removal", partitions=shrunk), cause=event)
    at(6050, "broker-2", ControllerReady(epoch=2, brokers=(2, 3), topics=1, partitions=2, took_ms=40), cause=event)
    at(6051, "broker-2", EventEnded(event_id=1, event="Reelect", took_ms=49), cause=event)
    _request(logs, 6055, 2, 2, 0, "UpdateMetadata", "Reelect", event, answer_ms=4)
    _request(logs, 6060, 2, 3, 0, "UpdateMetadata", "Reelect", event, answer_ms=20)

    at(7000, "testbed", FaultInjected(fault="start", target="broker-1"))
    at(7100, "broker-1", ProcessStarted(role="broker", broker_id=1), incarnation=2)
    at(7200, "broker-1", BrokerRegistered(broker_id=1, broker_epoch=31, session_id=9), incarnation=2)
    at(
        7300,
        "broker-1",
        FenceHit(fence="broker.controller-epoch", what="LeaderAndIsr from 1", offered=1, known=2),
        incarnation=2,
    )
    expanded = (Leadership("orders", 0, 2, 1, (2, 3, 1), 2, 2),)
    at(7400, "broker-2", LeadershipWritten(why="alter-partition", partitions=expanded))

    at(9000, "testbed", FaultInjected(fault="stop", target="broker-1"))
    at(9010, "broker-1", ProcessExiting(reason="SIGTERM"), incarnation=2)
    at(9011, "broker-3", ProcessExiting(reason="SIGTERM"))
    at(9100, "testbed", FaultInjected(fault="stop", target="broker-2"))
    at(9150, "broker-2", ProcessExiting(reason="SIGTERM"))
    at(9200, "testbed", ProcessExiting(reason="stopped"))
    return logs


def controller_never_ready(run: str = "never-ready") -> Logs:
    """One broker is elected, and loads the cluster's state to the end."""
    logs = Logs(run=run)
    logs.at(1000, "broker-1", ControllerElected(broker_id=1, epoch=1, epoch_zk_version=1, session_id=1))
    logs.at(5000, "broker-1", StepReached(step="still loading"))
    return logs


def silent_controllers(run: str = "silent-controllers", *, timeout_ms: int = 2_000) -> Logs:
    """Three controllers are lost and no fault is on record: only the third exits in order.

    Broker 1 has no `SessionOpened`; its last sign is at 1100, and its loss is noticed at 6000. Broker 2 opened a
    session of 1,000 ms, and another later; its last sign is at 6100, and its loss is noticed at 9000. Broker 1 exits at
    9200, which is noticed at 14000. The number of partitions is not known of the third takeover; the fourth is not
    ready at the end.
    """
    logs = Logs(run=run)
    logs.at(900, "testbed", RunDescribed(world="processes", session_timeout_ms=timeout_ms))
    logs.at(1000, "broker-1", ControllerElected(broker_id=1, epoch=1, epoch_zk_version=1, session_id=1))
    logs.at(1100, "broker-1", ControllerReady(epoch=1, brokers=(1, 2), topics=0, partitions=0, took_ms=0))
    logs.at(1200, "broker-2", SessionOpened(session_id=2, timeout_ms=1_000))
    logs.at(6000, "broker-2", GONE)
    logs.at(6010, "broker-2", ControllerElected(broker_id=2, epoch=2, epoch_zk_version=2, session_id=2))
    logs.at(6100, "broker-2", ControllerReady(epoch=2, brokers=(2,), topics=0, partitions=0, took_ms=0))
    logs.at(8000, "broker-1", ProcessStarted(role="broker", broker_id=1), incarnation=2)
    logs.at(9000, "broker-1", GONE, incarnation=2)
    logs.at(9010, "broker-1", ControllerElected(broker_id=1, epoch=3, epoch_zk_version=3, session_id=3), incarnation=2)
    logs.at(9100, "broker-1", ControllerReady(epoch=3, brokers=(1,), topics=0, partitions=-1, took_ms=0), incarnation=2)
    logs.at(9200, "broker-1", ProcessExiting(reason="SIGTERM"), incarnation=2)
    logs.at(13000, "broker-2", SessionOpened(session_id=4, timeout_ms=60_000), incarnation=2)
    logs.at(14000, "broker-2", GONE, incarnation=2)
    logs.at(14010, "broker-2", ControllerElected(broker_id=2, epoch=4, epoch_zk_version=4, session_id=4), incarnation=2)
    return logs


LONG_LINE_PARTITIONS = 37_000


def long_line(run: str = "long-line") -> Logs:
    """One broker writes three records; the second is a line of more than 10 MB, with the partitions of one topic."""
    logs = Logs(run=run)
    topic = "t" * 249
    states = tuple(
        Leadership(topic, partition, partition % 3 + 1, 0, (1, 2, 3), 0, 1) for partition in range(LONG_LINE_PARTITIONS)
    )
    logs.at(1000, "broker-1", StepReached(step="a topic"))
    logs.at(1001, "broker-1", LeadershipWritten(why="initialise", partitions=states))
    logs.at(1002, "broker-1", StepReached(step="the end"))
    assert len(logs.lines["broker-1-0001-0001.jsonl"][1]) > 10_000_000
    return logs


def _request(
    logs: Logs,
    ms: float,
    sender: int,
    to: int,
    correlation: int,
    api: str,
    event: str,
    cause: int,
    *,
    answer_ms: float = 5,
    partitions: int = 0,
) -> None:
    name, client = f"broker-{sender}", str(sender)
    epoch = logs.node(name).controller_epoch
    sent = logs.at(
        ms,
        name,
        RequestSent(
            to=to,
            api=api,
            api_version=7,
            client_id=client,
            correlation_id=correlation,
            controller_epoch=sender if epoch == 0 else epoch,
            partitions=partitions,
            event=event,
        ),
        cause=cause,
    )
    logs.at(
        ms + answer_ms,
        name,
        ResponseReceived(sender=to, api=api, client_id=client, correlation_id=correlation),
        cause=sent,
    )


class ChannelsRun:
    """The requests of two controllers, one after another, as their channels write them: most of them have to wait.

    Attributes:
        waiting: the sequence numbers of the `RequestQueued` that wait, by controller and receiver.
    """

    def __init__(self, seed: int, *, records: int) -> None:
        self.logs = Logs(run=f"channels-{seed}")
        self.waiting: dict[tuple[str, int], list[int]] = {}
        self._random = random.Random(seed)
        self._node = ("broker-1", 1)
        self._sent: dict[int, int] = {}
        for epoch in range(1, 1 + records):
            if epoch == 1 or self._random.random() < 0.03:
                self._elect(epoch)
            self._step(self._random.choice((2, 3)))

    def _write(self, payload: Payload, cause: int | None = None) -> int:
        name, incarnation = self._node
        now_ms = self.logs.clock.now_ms + self._random.choice((0, 1, 40))
        return self.logs.at(now_ms, name, payload, cause=cause, incarnation=incarnation)

    def _elect(self, epoch: int) -> None:
        name, incarnation = self._node
        if self._random.random() < 0.5:
            self._node = (name, incarnation + 1)
        else:
            self._node = ("broker-2" if name == "broker-1" else "broker-1", incarnation + 1)
        self._sent.clear()
        self.waiting = {key: ids for key, ids in self.waiting.items() if key[0] != self._node[0]}
        self._write(ControllerElected(broker_id=1, epoch=epoch, epoch_zk_version=epoch, session_id=1))

    def _step(self, to: int) -> None:
        waiting = self.waiting.setdefault((self._node[0], to), [])
        match self._random.choice(("queue", "queue", "queue", "send", "send", "fail", "coalesce", "close")):
            case "queue":
                self._queue(to, waiting)
            case "send":
                self._send(to, waiting)
            case "fail" if to in self._sent:
                failed = RequestFailed(to=to, api="StopReplica", client_id="1", correlation_id=0, why="reset")
                self._write(failed, cause=self._sent.pop(to))
            case "coalesce" if len(waiting) > 10 and self._random.random() < 0.3:
                waiting.clear()
                self._queue(to, waiting)
                self._queue(to, waiting)
            case "close" if self._random.random() < 0.1:
                self._sent.pop(to, None)
                self._write(ChannelClosed(to=to, broker_epoch=7, dropped=len(waiting)))
                self._write(ChannelOpened(to=to, broker_epoch=8))
                waiting.clear()

    def _queue(self, to: int, waiting: list[int]) -> None:
        waiting.append(self._write(RequestQueued(to=to, api="StopReplica", depth=len(waiting) + 1)))

    def _send(self, to: int, waiting: list[int]) -> None:
        queued = waiting.pop(0) if waiting and self._random.random() < 0.9 else 0
        request = RequestSent(
            to=to, api="StopReplica", api_version=4, client_id="1", correlation_id=0, queued=queued, partitions=3
        )
        self._sent[to] = self._write(request)


class RandomRun:
    """A log of valid records in a random, impossible order, all about the same few brokers and partitions.

    Clock values are often equal, epochs repeat and decrease, causes are any earlier record, and responses come twice
    or not at all.
    """

    def __init__(self, seed: int, *, records: int, run: str = "") -> None:
        self.random = random.Random(seed)
        self.logs = Logs(run=run or f"random-{seed}")
        self.now_ms = 500.0
        self.epoch = 0
        self._incarnations = dict.fromkeys(("broker-1", "broker-2", "broker-3", "testbed"), 1)
        makers: list[Callable[[], Payload]] = [
            getattr(self, name) for name in sorted(dir(self)) if name.startswith("make_")
        ]
        for _ in range(records):
            self._write(self.random.choice(makers)())

    def _write(self, payload: Payload) -> None:
        self.now_ms += self.random.choice((0, 0, 0.001, 0.0005, 0.3333, 1, 7.7777, 250))
        node = "testbed" if isinstance(payload, FaultInjected | StepReached) else f"broker-{self.random.randint(1, 3)}"
        if isinstance(payload, ProcessStarted):
            self._incarnations[node] += 1
        log: EventLog = self.logs.node(node, self._incarnations[node])
        log.saw_controller_epoch(self.epoch)
        written = len(self.logs.lines[f"{node}-{self._incarnations[node]:04d}-0001.jsonl"])
        cause = self.random.choice(
            (None, self.random.randint(1, written + 1), max(1, written - self.random.randint(0, 3)))
        )
        self.logs.at(self.now_ms, node, payload, cause=cause, incarnation=self._incarnations[node])

    def _broker(self) -> int:
        return self.random.randint(1, 3)

    def _states(self) -> tuple[Leadership, ...]:
        return tuple(self._state() for _ in range(self.random.randint(0, 4)))

    def _state(self) -> Leadership:
        isr = tuple(self.random.sample((1, 2, 3), self.random.randint(0, 3)))
        leader = self.random.choice((-1, 1, 2, 3))
        epoch = max(0, self.epoch - self.random.choice((0, 0, 0, 1)))
        return Leadership(
            self.random.choice(("orders", "päyments-1")), self.random.randint(0, 2), leader, 4, isr, 7, epoch
        )

    def make_elected(self) -> Payload:
        self.epoch += 1
        return ControllerElected(
            broker_id=self._broker(), epoch=self.epoch, epoch_zk_version=self.epoch, session_id=-(2**63)
        )

    def make_ready(self) -> Payload:
        return ControllerReady(epoch=self.epoch, brokers=(1, 3), topics=1, partitions=3, took_ms=1.5)

    def make_lost(self) -> Payload:
        return ElectionLost(winner=self.random.choice((-1, 1, 2, 3)))

    def make_gone(self) -> Payload:
        return self.random.choice(
            (
                GONE,
                GONE,
                WatchFiredRecord(path="/controller", kind="created"),
                WatchFiredRecord(path="/x", kind="deleted"),
            )
        )

    def make_candidate(self) -> Payload:
        return BecameCandidate(why="fetch timeout")

    def make_resigned(self) -> Payload:
        return ControllerResigned(epoch=self.epoch, why="moved")

    def make_expired(self) -> Payload:
        return SessionExpiredRecord(session_id=3)

    def make_exiting(self) -> Payload:
        return ProcessExiting(reason='a "quoted" reason\n')

    def make_started(self) -> Payload:
        return ProcessStarted(role="broker", broker_id=self._broker())

    def make_registered(self) -> Payload:
        return BrokerRegistered(broker_id=self._broker(), broker_epoch=2**40, session_id=1)

    def make_opened(self) -> Payload:
        return SessionOpened(session_id=1, timeout_ms=self.random.choice((1, 20, 6_000)))

    def make_zk_write(self) -> Payload:
        return ZkWrite(purpose="topic", paths=(), operations=1, fenced=False)

    def make_zk_write_done(self) -> Payload:
        return ZkWriteDone(outcome="Ok")

    def make_fault(self) -> Payload:
        kinds = ("kill", "power_loss", "pause", "resume", "continue", "stop", "start", "expire", "heal", "crash")
        fault = self.random.choice(kinds)
        return FaultInjected(
            fault=fault, target=self.random.choice(("broker-1", "broker-2", "broker-3", "/controller"))
        )

    def make_point(self) -> Payload:
        return PointReached(point="partition.after_write", action=self.random.choice(("pause", "crash")))

    def make_answer(self) -> Payload:
        return AnswerInjected(
            answer="answer-1",
            hit=1,
            times=self.random.choice((1, 3)),
            api="Produce",
            api_version=11,
            client_id="a client",
            correlation_id=4,
            error="NOT_LEADER_OR_FOLLOWER",
            partitions=self.random.choice(((), (("orders", 0),))),
            is_applied=self.random.choice((False, True)),
            throttle_ms=0,
        )

    def make_step(self) -> Payload:
        return StepReached(step="Ünïcode", note="\u2028\ttab")

    def make_described(self) -> Payload:
        return RunDescribed(
            world=self.random.choice(("", "simulator", "processes")),
            brokers=self.random.choice((None, None, 3)),
            partitions=self.random.choice((None, 0, 12)),
            session_timeout_ms=self.random.choice((None, None, 6000)),
            seed=self.random.choice((None, 0, 7)),
            fault=self.random.choice(("", "kill", "a 'quoted' fault")),
        )

    def make_session(self) -> Payload:
        return SessionOpened(session_id=3, timeout_ms=self.random.choice((4000, 6000)))

    def make_brokers(self) -> Payload:
        return BrokersChanged(
            new=self.random.choice(((), (1,), (2, 3))),
            dead=self.random.choice(((), (3,), (1, 2))),
            bounced=(),
            live=(1,),
        )

    def make_topics(self) -> Payload:
        return TopicsChanged(new=(), deleted=self.random.choice(((), ("orders",), ("orders", "orders"), ("unknown",))))

    def make_written(self) -> Payload:
        why = self.random.choice(("initialise", "offline", "unclean", "preferred", "alter-partition", "isr-removal"))
        return LeadershipWritten(why=why, partitions=self._states())

    def make_written_more(self) -> Payload:
        return self.make_written()

    def make_loaded(self) -> Payload:
        return ContextLoaded(epoch=self.epoch, live_brokers=((1, 11),), partitions=self._states(), took_ms=2)

    def make_failed(self) -> Payload:
        return LeadershipNotWritten(why="offline", partitions=(Refused("orders", 0, "ELIGIBLE_LEADERS_NOT_AVAILABLE"),))

    def make_sent(self) -> Payload:
        return RequestSent(
            to=self._broker(),
            api=self.random.choice(("LeaderAndIsr", "StopReplica")),
            api_version=7,
            client_id="1",
            correlation_id=self.random.randint(0, 9),
            controller_epoch=self.epoch,
            partitions=self.random.randint(0, 100),
            event=self.random.choice(("", "Reelect")),
            attempt=self.random.choice((1, 1, 2)),
            queued=self.random.choice((0, 1, self.random.randint(1, 60))),
        )

    def make_queued(self) -> Payload:
        return RequestQueued(
            to=self._broker(), api="UpdateMetadata", controller_epoch=self.epoch, depth=self.random.randint(1, 12)
        )

    def make_received(self) -> Payload:
        return ResponseReceived(
            sender=self._broker(),
            api="LeaderAndIsr",
            client_id="1",
            correlation_id=self.random.randint(0, 9),
            error=self.random.choice(("NONE", "STALE_BROKER_EPOCH")),
            refused=self.random.choice(
                ((), (Refused("orders", 1, "FENCED_LEADER_EPOCH"), Refused("orders", 2, "NONE")))
            ),
            took_ms=self.random.random() * 10,
        )

    def make_request_failed(self) -> Payload:
        return RequestFailed(to=2, api="LeaderAndIsr", client_id="1", correlation_id=0, why="reset")

    def make_exchange(self) -> Payload:
        kind = self.random.choice((RequestReceived, None))
        if kind is None:
            return ResponseSent(api="LeaderAndIsr", client_id="1", correlation_id=self.random.randint(0, 9))
        return RequestReceived(
            api="LeaderAndIsr", api_version=7, client_id="1", correlation_id=self.random.randint(0, 9)
        )

    def make_event(self) -> Payload:
        event = self.random.choice(("Reelect", "BrokerChange"))
        return self.random.choice(
            (
                EventQueued(event_id=1, event=event),
                EventStarted(event_id=1, event=event, queued_ms=self.random.random() * 5),
                EventEnded(event_id=1, event=event, took_ms=self.random.random() * 5),
                EventEnded(event_id=1, event=event, took_ms=2.0005, outcome="moved"),
                EventPreempted(event_id=1, event=event),
            )
        )

    def make_fence(self) -> Payload:
        return FenceHit(
            fence=self.random.choice(("broker.broker-epoch", "zk.controller-epoch")),
            what=self.random.choice(("orders-0", "LeaderAndIsr from 1")),
            offered=1,
            known=self.random.randint(1, 2),
            switched_off=self.random.random() < 0.3,
        )

    def make_other(self) -> Payload:
        return self.random.choice(
            (
                ChannelClosed(to=1, broker_epoch=2, dropped=0),
                MetadataUpdated(
                    controller_id=1,
                    request_controller_epoch=1,
                    request_broker_epoch=1,
                    live_brokers=(1,),
                    partitions=self._states(),
                ),
                RequestDetail(
                    api="Metadata",
                    api_version=12,
                    client_id="x",
                    correlation_id=1,
                    request={"a": [1, None, "}"]},
                    response={},
                ),
            )
        )
