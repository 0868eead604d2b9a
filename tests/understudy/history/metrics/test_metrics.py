"""The metrics of a run, checked on runs small enough to count by hand."""

from __future__ import annotations

import random

import pytest

from tests.foundation.eventlog.lines import Logs
from tests.foundation.eventlog.stories import (
    GONE,
    RandomRun,
    controller_never_ready,
    killed_controller,
    silent_controllers,
)
from understudy.foundation.eventlog.records import (
    BrokerRegistered,
    BrokersChanged,
    ContextLoaded,
    ControllerElected,
    ControllerReady,
    ControllerResigned,
    ElectionLost,
    FaultInjected,
    Leadership,
    LeadershipWritten,
    Payload,
    PointReached,
    ProcessExiting,
    ProcessStarted,
    RequestSent,
    ResponseReceived,
    RunDescribed,
    SessionExpiredRecord,
    SessionOpened,
    StepReached,
    TopicsChanged,
    ZkWrite,
    ZkWriteDone,
)
from understudy.history.metrics.metric_tables import Failover, RunMetrics
from understudy.history.metrics.metrics import measure, nearest_rank
from understudy.history.reading.reader import read_lines


def measured(logs: Logs) -> RunMetrics:
    return measure(logs.run, read_lines(logs.lines).records)


def elected(broker: int, epoch: int) -> ControllerElected:
    return ControllerElected(broker_id=broker, epoch=epoch, epoch_zk_version=epoch, session_id=broker)


def ready(epoch: int) -> ControllerReady:
    return ControllerReady(epoch=epoch, brokers=(1, 2), topics=0, partitions=0, took_ms=0)


def written(
    leader: int, isr: tuple[int, ...] = (1, 2), *, why: str = "offline", epoch: int = 1, partition: int = 0
) -> LeadershipWritten:
    return LeadershipWritten(why=why, partitions=(Leadership("orders", partition, leader, 0, isr, 0, epoch),))


def two_reigns(*between: tuple[float, str, Payload], old: int = 1, new: int = 2) -> RunMetrics:
    """Broker `old` is elected at 1000 and ready at 1001, broker `new` elected at 3000 and ready at 3001."""
    logs = Logs()
    entries: list[tuple[float, str, Payload]] = [
        (1000, f"broker-{old}", elected(old, 1)),
        (1001, f"broker-{old}", ready(1)),
        *between,
        (3000, f"broker-{new}", elected(new, 2)),
        (3001, f"broker-{new}", ready(2)),
    ]
    for ms, node, payload in sorted(entries, key=lambda entry: entry[0]):
        logs.at(ms, node, payload)
    return measured(logs)


def failover(*between: tuple[float, str, Payload], old: int = 1, new: int = 2) -> Failover:
    (row,) = two_reigns(*between, old=old, new=new).failovers
    return row


# ------------------------------------------------------------------ a whole run


def test_metrics_of_a_run_with_a_killed_controller() -> None:
    run = measured(killed_controller())
    (row,) = run.failovers
    assert (row.previous_broker, row.broker, row.epoch, row.cause, row.by_fault) == (1, 2, 2, "kill", True)
    assert (row.lost_at_ms, row.noticed_by) == (2000.0, "broker-3")
    assert (row.detection_ms, row.election_ms, row.takeover_ms, row.propagation_ms) == (3000.0, 10.0, 40.0, 30.0)
    assert (row.reading_ms, row.deciding_ms, row.writing_ms) == (10.0, 25.0, 5.0)
    assert (row.outage_ms, row.requests, row.unanswered, row.brokers, row.partitions) == (3050.0, 2, 0, 2, 2)

    first, second = run.reigns
    assert (first.epoch, first.broker, first.ended_by, first.ended_at_ms) == (1, 1, "kill", 2000.0)
    assert (second.ended_by, second.ended_at_ms) == ("stop", 8100.0), "an orderly end"

    orders_0, orders_1 = run.partitions
    assert orders_0.leaderless_ms == 3030.0, "from the kill of its leader to the write that names another"
    assert (orders_0.clean_elections, orders_0.isr_shrinks, orders_0.isr_expands) == (2, 1, 1)
    assert orders_1.leaderless_ms == 0.0
    assert (orders_1.clean_elections, orders_1.isr_shrinks, orders_1.isr_expands) == (1, 1, 0)

    assert run.totals.without_controller_ms == 3050.0
    assert run.totals.ended_at_ms == 8100.0
    assert (run.totals.nodes, run.totals.incarnations, run.totals.controllers) == (4, 5, 2)
    assert [(row.why, row.partitions, row.elected) for row in run.elections] == [
        ("alter-partition", 1, 0),
        ("initialise", 2, 2),
        ("isr-removal", 1, 0),
        ("offline", 1, 1),
    ]
    assert [(row.event, row.api, row.sent, row.p50_ms, row.p99_ms) for row in run.requests] == [
        ("Reelect", "UpdateMetadata", 2, 4.0, 20.0),
        ("TopicChange", "LeaderAndIsr", 1, 5.0, 5.0),
    ]
    assert [(hit.fence, hit.node, hit.offered, hit.known, hit.hits) for hit in run.fence_hits] == [
        ("broker.controller-epoch", "broker-1", 1, 2, 1)
    ]
    assert [(row.event, row.started, row.queued_p50_ms, row.took_max_ms) for row in run.events] == [
        ("Reelect", 1, 1.0, 49.0),
        ("Startup", 1, 0.25, 31.0),
        ("TopicChange", 1, 0.5, 40.0),
    ]
    assert [(moment.at_ms, moment.kind, moment.what, moment.target) for moment in run.moments][1:3] == [
        (1990.0, "step", "the last sign", ""),
        (2000.0, "fault", "kill", "broker-1"),
    ]


def test_an_empty_run_has_metrics() -> None:
    run = measure("nothing", ())
    assert run.totals.records == 0
    assert (run.reigns, run.failovers, run.partitions) == ((), (), ())


@pytest.mark.parametrize("seed", range(20))
def test_metrics_do_not_depend_on_the_order_of_records(seed: int) -> None:
    records = list(read_lines(RandomRun(seed, records=300).logs.lines).records)
    numbers = measure("run", records)
    random.Random(seed).shuffle(records)
    assert measure("run", records) == numbers
    assert numbers.totals.records == 300


# ------------------------------------------------------------------ why a controller is lost


@pytest.mark.parametrize("resume", ["resume", "continue"])
def test_a_pause_of_the_controller_is_the_cause_unless_it_was_resumed_before(resume: str) -> None:
    paused = (1500.0, "testbed", FaultInjected(fault="pause", target="broker-1"))
    undone = (1700.0, "testbed", FaultInjected(fault=resume, target="broker-1"))
    gone = (2500.0, "broker-2", GONE)
    assert (failover(paused, gone).cause, failover(paused, gone).detection_ms) == ("pause", 1000.0)
    assert (failover(paused, undone, gone).cause, failover(paused, undone, gone).by_fault) == ("silence", False)


def test_the_restart_of_a_killed_controller_does_not_change_the_cause() -> None:
    row = failover(
        (1500.0, "testbed", FaultInjected(fault="kill", target="broker-1")),
        (1600.0, "testbed", FaultInjected(fault="start", target="broker-1")),
        (2500.0, "broker-3", GONE),
    )
    assert (row.cause, row.detection_ms, row.election_ms, row.noticed_by) == ("kill", 1000.0, 500.0, "broker-3")


def test_a_fault_of_another_broker_is_not_the_cause() -> None:
    row = failover((1500.0, "testbed", FaultInjected(fault="kill", target="broker-3")), (2500.0, "broker-2", GONE))
    assert (row.cause, row.by_fault, row.lost_at_ms) == ("silence", False, 1.0), "lost with the controller's last sign"


def test_a_crash_at_an_armed_point_is_the_cause() -> None:
    row = failover(
        (1500.0, "broker-1", PointReached(point="partition.after_write", action="crash")), (2500.0, "broker-2", GONE)
    )
    assert (row.cause, row.by_fault, row.detection_ms) == ("crash", True, 1000.0)


@pytest.mark.parametrize(
    ("word", "cause"),
    [
        (ProcessExiting(reason="SIGTERM"), "exit"),
        (SessionExpiredRecord(session_id=1), "session expired"),
        (ControllerResigned(epoch=1, why="queue"), "resigned"),
        (GONE, "deleted"),
    ],
)
def test_without_a_fault_the_controllers_first_record_of_its_end_is_the_cause(word: Payload, cause: str) -> None:
    row = failover(
        (2000.0, "broker-1", word), (2100.0, "broker-1", ProcessExiting(reason="later")), (2500.0, "broker-2", GONE)
    )
    assert (row.cause, row.by_fault, row.lost_at_ms) == (cause, False, 1100.0)


def test_a_late_notification_of_an_earlier_loss_does_not_count_as_detection() -> None:
    """Broker 3 is slow: it is notified of the earlier loss, and loses to broker 1, only after broker 1 was elected."""
    row = failover(
        (1002.0, "broker-3", GONE),
        (1003.0, "broker-3", ElectionLost(winner=1)),
        (1002.0, "testbed", FaultInjected(fault="kill", target="broker-1")),
        (2500.0, "broker-3", GONE),
        (3002.0, "broker-3", ElectionLost(winner=2)),
    )
    assert (row.detection_ms, row.noticed_by) == (1498.0, "broker-3")


def test_a_deposed_controller_that_is_elected_again_is_its_own_predecessor() -> None:
    row = failover(
        (1500.0, "testbed", FaultInjected(fault="delete", target="/controller")),
        (1501.0, "broker-1", GONE),
        (1502.0, "broker-2", GONE),
        new=1,
    )
    assert (row.previous_broker, row.broker, row.cause, row.noticed_by, row.detection_ms) == (
        1,
        1,
        "delete",
        "broker-2",
        2.0,
    )


def test_a_failover_that_no_broker_detected_has_no_detection_time() -> None:
    row = failover((1500.0, "testbed", FaultInjected(fault="kill", target="broker-1")))
    assert (row.detection_ms, row.election_ms, row.noticed_by) == (None, None, "")
    assert row.outage_ms == 1501.0


def test_propagation_counts_only_responses_to_the_takeovers_requests() -> None:
    logs = Logs()
    logs.at(1000, "broker-1", elected(1, 1))
    logs.at(2000, "broker-2", elected(2, 2), cause=7)
    logs.at(2010, "broker-2", ready(2))
    for ms, cause, attempt in ((2011, 7, 1), (2011, 7, 2), (2012, 7, 1), (2013, 8, 1), (2014, None, 1)):
        sent = logs.at(
            ms,
            "broker-2",
            RequestSent(
                to=3, api="A", api_version=0, client_id="2", correlation_id=0, controller_epoch=2, attempt=attempt
            ),
            cause=cause,
        )
        if (ms, attempt) != (2011, 1):
            logs.at(
                ms + 100, "broker-2", ResponseReceived(sender=3, api="A", client_id="2", correlation_id=0), cause=sent
            )
    (row,) = measured(logs).failovers
    assert (row.requests, row.unanswered, row.propagation_ms) == (2, 0, 102.0)


def test_a_takeover_is_split_into_reading_deciding_and_writing() -> None:
    logs = Logs()

    def write(sent: float, done: float | None, *, cause: int) -> None:
        payload = ZkWrite(purpose="leader-and-isr", paths=(), operations=1, fenced=True)
        number = logs.at(sent, "broker-2", payload, cause=cause)
        if done is not None:
            dones.append((done, number))

    dones: list[tuple[float, int]] = []
    logs.at(1000, "broker-1", elected(1, 1))
    logs.at(1001, "broker-1", ready(1))
    event = logs.at(2990, "broker-2", StepReached(step="an event"))
    logs.at(3000, "broker-2", elected(2, 2), cause=event)
    write(3005, 3010, cause=event)
    logs.at(3020, "broker-2", ContextLoaded(epoch=2, live_brokers=(), partitions=(), took_ms=0))
    write(3030, 3040, cause=event)
    write(3035, 3050, cause=event)
    write(3060, 3070, cause=999)
    write(3080, 3200, cause=event)
    write(3090, None, cause=event)
    logs.at(3100, "broker-2", ready(2))
    for done, number in dones:
        logs.at(done, "broker-2", ZkWriteDone(outcome="Ok"), cause=number)
    (row,) = measured(logs).failovers
    assert (row.takeover_ms, row.reading_ms, row.deciding_ms, row.writing_ms) == (100.0, 20.0, 40.0, 40.0)


def test_a_takeover_that_did_not_record_its_reading_is_not_split() -> None:
    (row,) = two_reigns().failovers
    assert (row.takeover_ms, row.reading_ms, row.deciding_ms, row.writing_ms) == (1.0, None, None, None)


def test_a_log_without_any_write_does_not_split_the_rest_of_a_takeover() -> None:
    logs = Logs()
    logs.at(1000, "broker-1", elected(1, 1))
    logs.at(1001, "broker-1", ready(1))
    gone = logs.at(2990, "broker-2", GONE)
    logs.at(3000, "broker-2", elected(2, 2), cause=gone)
    logs.at(3004, "broker-2", ContextLoaded(epoch=2, live_brokers=(), partitions=(), took_ms=0))
    logs.at(3010, "broker-2", ready(2))
    (row,) = measured(logs).failovers
    assert (row.reading_ms, row.deciding_ms, row.writing_ms) == (4.0, None, None)
    write = ZkWrite(purpose="registration", paths=(), operations=1, fenced=False)
    logs.at(4000, "broker-2", write)
    (row,) = measured(logs).failovers
    assert (row.reading_ms, row.deciding_ms, row.writing_ms) == (4.0, 6.0, 0.0), "its writes are on record"


def test_an_election_without_a_cause_has_neither_requests_nor_writes() -> None:
    loaded = ContextLoaded(epoch=2, live_brokers=(), partitions=(), took_ms=0)
    logs = Logs()
    for ms, broker, payload in ((1000, 1, elected(1, 1)), (1001, 1, ready(1)), (3000, 2, elected(2, 2))):
        logs.at(ms, f"broker-{broker}", payload)
    logs.at(3004, "broker-2", loaded)
    logs.at(3010, "broker-2", ready(2))
    (row,) = measured(logs).failovers
    assert (row.reading_ms, row.deciding_ms, row.writing_ms) == (4.0, None, None)
    assert (row.requests, row.unanswered, row.propagation_ms) == (None, None, None)


def test_an_outage_without_another_election_lasts_to_the_end() -> None:
    logs = Logs()
    logs.at(1000, "broker-1", elected(1, 1))
    logs.at(1100, "broker-1", ready(1))
    logs.at(2000, "testbed", FaultInjected(fault="kill", target="broker-1"))
    logs.at(5000, "broker-2", StepReached(step="still no controller"))
    run = measured(logs)
    assert run.failovers == ()
    assert run.totals.without_controller_ms == 3000.0


def test_time_without_a_controller_is_not_known_where_none_was_ready() -> None:
    logs = controller_never_ready()
    totals = measured(logs).totals
    assert (totals.controllers, totals.without_controller_ms) == (1, None)
    assert measure("nothing", ()).totals.without_controller_ms is None
    logs.at(6000, "broker-1", ready(1))
    assert measured(logs).totals.without_controller_ms == 0.0


def test_a_stopped_controller_is_an_outage_while_other_brokers_run() -> None:
    logs = Logs()
    logs.at(1000, "broker-1", elected(1, 1))
    logs.at(1100, "broker-1", ready(1))
    logs.at(2000, "testbed", FaultInjected(fault="stop", target="broker-1"))
    logs.at(2500, "testbed", ProcessExiting(reason="stopped"))
    assert measured(logs).totals.without_controller_ms == 0.0
    logs.at(6000, "broker-2", StepReached(step="alive"))
    assert measured(logs).totals.without_controller_ms == 4000.0


def test_a_controller_that_was_silent_for_long_was_lost_a_session_timeout_before_it_was_noticed() -> None:
    first, second, third, _ = measured(silent_controllers()).reigns
    assert (first.ended_by, first.ended_at_ms) == ("silence", 3100.0), "6000 less the run's session timeout"
    assert (second.ended_by, second.ended_at_ms) == ("silence", 7100.0), "9000 less the one in its SessionOpened"
    assert (third.ended_by, third.ended_at_ms) == ("exit", 8300.0), "its exit is on record"
    for timeout_ms, ended_at_ms in ((3_266, 1834.0), (3_267, 200.0), (5_500, 200.0)):
        first, *_ = measured(silent_controllers(timeout_ms=timeout_ms)).reigns
        assert first.ended_at_ms == ended_at_ms, "its last sign is at most one and a half session timeouts before"


def test_a_takeover_has_no_numbers_of_brokers_and_partitions_that_no_record_states() -> None:
    run = measured(silent_controllers())
    assert [(row.brokers, row.partitions) for row in run.failovers] == [(1, 0), (1, None), (None, None)]
    assert run.settings.partitions is None


def test_a_silent_controller_whose_loss_was_not_noticed_was_lost_with_its_last_sign() -> None:
    opened = (1000.0, "broker-1", SessionOpened(session_id=1, timeout_ms=100))
    assert failover(opened).lost_at_ms == 1.0
    assert failover(opened, (2500.0, "broker-3", GONE)).lost_at_ms == 1400.0
    assert failover((2500.0, "broker-3", GONE)).lost_at_ms == 1.0, "the session timeout is not known"


# ------------------------------------------------------------------ partitions


def leaderless_ms(*entries: tuple[float, str, Payload], incarnations: dict[float, int] | None = None) -> float:
    """Return the time without a leader; `incarnations` has those, by time, that are not the first of their node."""
    logs = Logs()
    for ms, node, payload in (*entries, (9000.0, "testbed", StepReached(step="end"))):
        logs.at(ms, node, payload, incarnation=(incarnations or {}).get(ms, 1))
    return measured(logs).totals.leaderless_ms


@pytest.mark.parametrize("fault", ["kill", "power_loss"])
def test_a_partition_is_leaderless_while_it_has_no_leader_or_its_leader_is_down(fault: str) -> None:
    kill = (2000.0, "testbed", FaultInjected(fault=fault, target="broker-1"))
    assert leaderless_ms((1000.0, "broker-3", written(1)), kill, (2500.0, "broker-3", written(2))) == 500.0
    assert leaderless_ms((1000.0, "broker-3", written(1)), kill, (2500.0, "broker-3", written(-1))) == 7000.0
    assert leaderless_ms((1000.0, "broker-3", written(2)), kill) == 0.0
    assert leaderless_ms((1000.0, "broker-3", written(-1)), (1700.0, "broker-3", written(2))) == 700.0


@pytest.mark.parametrize("resume", ["resume", "continue"])
def test_a_leader_is_back_when_it_is_resumed_or_registers(resume: str) -> None:
    led = (1000.0, "broker-3", written(1))
    pause = (2000.0, "testbed", FaultInjected(fault="pause", target="broker-1"))
    assert leaderless_ms(led, pause, (2600.0, "testbed", FaultInjected(fault=resume, target="broker-1"))) == 600.0
    registered = BrokerRegistered(broker_id=1, broker_epoch=5, session_id=1)
    assert (
        leaderless_ms(led, (2000.0, "broker-1", ProcessExiting(reason="x")), (2700.0, "broker-1", registered)) == 700.0
    )


def test_without_a_testbed_brokers_that_the_controller_saw_die_are_down() -> None:
    dead = BrokersChanged(new=(), dead=(1,), bounced=(), live=(3,))
    back = BrokersChanged(new=(1,), dead=(), bounced=(), live=(1, 3))
    assert (
        leaderless_ms((1000.0, "broker-3", written(1)), (2000.0, "broker-3", dead), (2800.0, "broker-3", back)) == 800.0
    )


def test_a_broker_that_the_controller_saw_die_is_down_from_its_last_record_on() -> None:
    before = (
        (900.0, "broker-1", SessionOpened(session_id=1, timeout_ms=6_000)),
        (950.0, "broker-1", BrokerRegistered(broker_id=1, broker_epoch=5, session_id=1)),
        (1000.0, "broker-3", written(1)),
        (1500.0, "broker-1", StepReached(step="the last sign")),
    )
    dead = (6000.0, "broker-3", BrokersChanged(new=(), dead=(1,), bounced=(), live=(3,)))
    elected = (6100.0, "broker-3", written(3, (3,)))
    assert leaderless_ms(*before, dead, elected) == 4600.0, "from the last sign to the next leader"
    restarted = (5900.0, "broker-1", ProcessStarted(role="broker", broker_id=1))
    assert leaderless_ms(*before, restarted, dead, elected, incarnations={5900.0: 2}) == 4600.0, (
        "a broker that has started again but not registered serves no partition"
    )


def test_a_broker_without_records_for_long_is_down_for_no_longer_than_its_session_timeout() -> None:
    opened = (900.0, "broker-1", SessionOpened(session_id=1, timeout_ms=2_000))
    registered = (950.0, "broker-1", BrokerRegistered(broker_id=1, broker_epoch=5, session_id=1))
    led = (1000.0, "broker-3", written(1))
    dead = (6000.0, "broker-3", BrokersChanged(new=(), dead=(1,), bounced=(), live=(3,)))
    elected = (6100.0, "broker-3", written(3, (3,)))
    assert leaderless_ms(opened, registered, led, dead, elected) == 2100.0
    assert leaderless_ms(registered, led, dead, elected) == 100.0, "the session timeout is not known"
    assert leaderless_ms(opened, led, dead, elected) == 100.0, "the broker's registration is not known"
    for last_ms, expected in ((3_000.0, 3_100.0), (2_999.0, 2_100.0)):
        last = (last_ms, "broker-1", StepReached(step="the last sign"))
        assert leaderless_ms(opened, registered, led, last, dead, elected) == expected
    described = (900.0, "testbed", RunDescribed(session_timeout_ms=2_500))
    assert leaderless_ms(described, registered, led, dead, elected) == 2600.0
    assert leaderless_ms(described, opened, registered, led, dead, elected) == 2100.0, "the granted timeout counts"


def test_a_controller_that_was_killed_without_a_fault_on_record_is_down_from_its_last_record_on() -> None:
    """No `BrokersChanged` lists it: the next controller reads the live brokers without it."""
    before = (
        (900.0, "broker-1", SessionOpened(session_id=1, timeout_ms=2_000)),
        (950.0, "broker-1", BrokerRegistered(broker_id=1, broker_epoch=5, session_id=1)),
        (1000.0, "broker-1", written(1)),
        (3500.0, "broker-1", StepReached(step="the last sign")),
        (6000.0, "broker-3", elected(3, 2)),
    )
    led = (6030.0, "broker-3", written(3, (3,), epoch=2))
    without_it, with_it = (
        (6040.0, "broker-3", ControllerReady(epoch=2, brokers=brokers, topics=1, partitions=1, took_ms=40))
        for brokers in ((2, 3), (1, 2, 3))
    )
    assert leaderless_ms(*before, led, without_it) == 2530.0
    assert leaderless_ms(*before, led, with_it) == 0.0
    assert leaderless_ms(*before, led) == 0.0, "the brokers that it read are not known"
    assert leaderless_ms(*before[1:], led, without_it) == 30.0, "the session timeout is not known"
    killed = (3600.0, "testbed", FaultInjected(fault="kill", target="broker-1"))
    assert leaderless_ms(*before, killed, led, without_it) == 2430.0, "the fault on record is exact"
    late = (6010.0, "broker-4", BrokerRegistered(broker_id=4, broker_epoch=6, session_id=4))
    moved = (6020.0, "broker-3", written(4, (4,), epoch=2))
    assert leaderless_ms(*before, late, moved, without_it) == 2520.0, "broker 4 registered after the election"


def test_a_fault_on_record_dates_the_loss_of_a_broker_exactly() -> None:
    opened = (900.0, "broker-1", SessionOpened(session_id=1, timeout_ms=6_000))
    registered = (950.0, "broker-1", BrokerRegistered(broker_id=1, broker_epoch=5, session_id=1))
    led = (1000.0, "broker-3", written(1))
    killed = (2000.0, "testbed", FaultInjected(fault="kill", target="broker-1"))
    dead = (6000.0, "broker-3", BrokersChanged(new=(), dead=(1,), bounced=(), live=(3,)))
    assert leaderless_ms(opened, registered, led, killed, dead, (6100.0, "broker-3", written(3, (3,)))) == 4100.0


def test_a_deleted_partition_needs_no_leader() -> None:
    deleted = TopicsChanged(new=(), deleted=("orders",))
    logs = Logs()
    logs.node("broker-3").saw_controller_epoch(1)
    logs.at(1000, "broker-3", written(-1))
    logs.at(1400, "broker-3", deleted)
    logs.at(9000, "broker-3", StepReached(step="end"))
    (row,) = measured(logs).partitions
    assert (row.leaderless_ms, row.leader, row.isr) == (400.0, None, None)


def test_a_late_write_of_an_older_controller_does_not_change_the_leader() -> None:
    logs = Logs()
    logs.at(1000, "broker-1", written(1, epoch=1))
    logs.at(2000, "broker-2", written(2, epoch=2))
    logs.at(3000, "broker-1", written(1, why="unclean", epoch=1))
    (row,) = measured(logs).partitions
    assert (row.leader, row.writes, row.clean_elections, row.unclean_elections) == (2, 3, 2, 0)


def test_a_partition_state_read_at_takeover_is_not_counted_as_an_election() -> None:
    logs = Logs()
    old = Leadership("orders", 0, 1, 0, (1, 2), 0, 1)
    logs.at(1000, "broker-2", ContextLoaded(epoch=2, live_brokers=(), partitions=(old,), took_ms=1))
    logs.at(1100, "broker-2", written(2, (2,), why="unclean", epoch=2))
    (row,) = measured(logs).partitions
    assert (row.writes, row.unclean_elections, row.clean_elections, row.isr_shrinks) == (1, 1, 0, 1)


@pytest.mark.parametrize(("percent", "expected"), [(50, 2), (99, 4), (100, 4), (25, 1), (26, 2)])
def test_nearest_rank(percent: int, expected: int) -> None:
    assert nearest_rank([1, 2, 3, 4], percent) == expected
    assert nearest_rank([], percent) is None
