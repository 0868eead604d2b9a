"""The faults of processes, disks, clocks and ZooKeeper as steps: each has its effect, and says so if it has none."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from tests.shares import SHARES, at_night, share_of
from tests.understudy.trials.experiments.simulated import HEAD
from understudy.brokers.machine.injected_faults import FaultsFile
from understudy.foundation.eventlog.records import (
    BrokerRegistered,
    Envelope,
    FaultInjected,
    LogOpened,
    RecordsAppended,
    SessionSuspendedRecord,
    WatchFiredRecord,
    ZkWrite,
    ZkWriteDone,
)
from understudy.trials.experiments.engine import ExperimentEngine, RunData
from understudy.trials.experiments.engines import capabilities
from understudy.trials.experiments.language.action_table import ACTIONS
from understudy.trials.experiments.language.actions import Counted
from understudy.trials.experiments.language.frozen import freeze
from understudy.trials.experiments.language.reading import read_experiment
from understudy.trials.experiments.processes.engine import ProcessEngine
from understudy.trials.experiments.runner import Runner, RunOutcome
from understudy.trials.experiments.simulated.engine import SimulatedEngine

CLUSTER = (
    "cluster: {brokers: 3, session: 3s,\n"
    "  set: {replica.lag.time.max.ms: '2000', log.flush.interval.messages: '1'},\n"
    "  topics: [{name: orders, partitions: 1, assignment: [1, 2, 3]}]}\n"
)
LOAD = "load: {producers: 1, consumers: 1, rate: 10}\n"
ON_PROCESSES_LASTS = "7s"
"""A second more than any of the faults lasts that are injected on processes."""
OF_PROCESSES = pytest.mark.xdist_group("experiments-on-processes")


def outcome_of(
    engine: type[ExperimentEngine], steps: str, folder: Path, *, lasts: str = "10s", load: str = LOAD
) -> RunOutcome:
    text = f"{HEAD}{CLUSTER}{load}steps:\n  - {steps}\nlasts: {lasts}\nexpect: {{within: {{L1: 20s, L3: 20s}}}}\n"
    plan = freeze(read_experiment(text, "f.yaml"), 3)
    running = engine.begin(plan, folder)
    try:
        return Runner(plan, running).run()
    finally:
        running.close()


def held(outcome: RunOutcome) -> RunData:
    """The data of a run in which every fault was injected, and after which the cluster has settled."""
    assert [step.failure for step in outcome.steps if step.failure] == []
    assert outcome.not_injected == ()
    assert outcome.unsettled == ""
    assert outcome.data is not None
    assert outcome.data.failures == ()
    return outcome.data


def records(data: RunData, broker: int) -> list[Envelope]:
    return list(data.records[f"broker-{broker}"])


def all_records(data: RunData) -> list[Envelope]:
    return [record for node in data.records.values() for record in node]


def is_fault(record: Envelope, fault: str, target: str) -> bool:
    data = record.data
    return isinstance(data, FaultInjected) and (data.fault, data.target) == (fault, target)


def longest_gap_ms(data: RunData) -> float:
    """The longest time between two acknowledged batches."""
    return max(later - earlier for earlier, later in pairwise(sorted(data.load.acknowledged_ms)))


def restarts(data: RunData, broker: int) -> int:
    return max(record.incarnation for record in records(data, broker)) - 1


def reopened_at(data: RunData, broker: int) -> tuple[int, int]:
    """The end offset of the broker's log before the broker first ended, and when the log was next opened."""
    appended = [
        record.data.batches[-1].next_offset
        for record in records(data, broker)
        if record.incarnation == 1 and isinstance(record.data, RecordsAppended) and record.data.topic == "orders"
    ]
    opened = [
        record.data.log_end_offset
        for record in records(data, broker)
        if record.incarnation > 1 and isinstance(record.data, LogOpened) and record.data.topic == "orders"
    ]
    return appended[-1], opened[0]


# ------------------------------------------------------------------ what each has done


def _ends_broker(data: RunData) -> bool:
    return restarts(data, 1) > 0 and "broker-1" in data.may_fail


def _slows(data: RunData) -> bool:
    return longest_gap_ms(data) > 400


def _loses_the_end_of_the_log(data: RunData) -> bool:
    before, after = reopened_at(data, 2)
    return 0 < after < before


def _empties_the_log(data: RunData) -> bool:
    before, after = reopened_at(data, 2)
    return after == 0 < before


def _keeps_the_log(data: RunData) -> bool:
    before, after = reopened_at(data, 2)
    return 0 < before - 1 <= after


def _shifts_the_wall_clock(data: RunData) -> bool:
    """Whether the distance between the two clocks of broker 2 changes by a quarter of a second, and is right again."""
    off = [record.wall_ms - record.mono_ms for record in records(data, 2)]
    return max(off) - min(off) > 250 and abs(off[0] - off[-1]) < 50


def _stops_again_and_again(data: RunData) -> bool:
    """Whether broker 1 writes nothing for most of a period, at least eight times."""
    (begun,) = [each.mono_ms for each in all_records(data) if is_fault(each, "starve", "broker-1")]
    times = [each.mono_ms for each in records(data, 1) if begun <= each.mono_ms <= begun + 3_000]
    return sum(later - earlier > 150 for earlier, later in pairwise(times)) >= 8


def _suspends_sessions(data: RunData) -> bool:
    return all(any(isinstance(each.data, SessionSuspendedRecord) for each in records(data, b)) for b in (1, 2, 3))


def _suspends_a_session_often(data: RunData) -> bool:
    return sum(isinstance(each.data, SessionSuspendedRecord) for each in all_records(data)) >= 4


def _delays_an_answer(data: RunData) -> bool:
    asked = {
        (each.node, each.incarnation, each.seq): each.mono_ms
        for each in all_records(data)
        if isinstance(each.data, ZkWrite)
    }
    done = [each for each in all_records(data) if isinstance(each.data, ZkWriteDone)]
    return any(each.mono_ms - asked[each.node, each.incarnation, each.cause or 0] > 350 for each in done)


def _delays_a_watch(data: RunData) -> bool:
    """Whether the controller is notified of the new topic only when the hold has ended."""
    (held_at,) = [
        each for each in all_records(data) if isinstance(each.data, FaultInjected) and "watch" in each.data.fault
    ]
    assert isinstance(held_at.data, FaultInjected)
    target = held_at.data.target
    healed_ms = next(each.mono_ms for each in all_records(data) if is_fault(each, "heal", target))
    fired = [
        each.mono_ms
        for each in records(data, int(target[7]))
        if isinstance(each.data, WatchFiredRecord) and each.mono_ms > held_at.mono_ms
    ]
    return fired[0] >= healed_ms > held_at.mono_ms + 1_400


def _registers_late(data: RunData) -> bool:
    """Whether broker 2 registers again more than three seconds after it was killed."""
    killed = [each.mono_ms for each in all_records(data) if is_fault(each, "kill", "broker-2")]
    registered = [each.mono_ms for each in records(data, 2) if isinstance(each.data, BrokerRegistered)]
    return registered[-1] - killed[0] > 3_000


EFFECTS: dict[str, tuple[str, Callable[[RunData], bool]]] = {
    "fill-disk": ("{at: 2s, fill-disk: 1, for: 3s}", _ends_broker),
    "fail-disk": ("{at: 2s, fail-disk: 1, for: 3s}", _ends_broker),
    "fail-flush": ("{at: 2s, fail-flush: 1, for: 3s}", _ends_broker),
    "fail-reads": ("{at: 2s, fail-reads: 1, for: 3s}", _ends_broker),
    "slow-disk": ("{at: 2s, slow-disk: 1, by: 500ms, for: 3s}", _slows),
    "slow-flush": ("{at: 2s, slow-flush: 1, by: 500ms, for: 3s}", _slows),
    "tear-append": ("{at: 2s, tear-append: 2, for: 4s}", _keeps_the_log),
    # Some batches: of the last one the broker may not have written the record before it was killed.
    "corrupt-log": ("{at: 2s, corrupt-log: 2, for: 4s, count: 250}", _loses_the_end_of_the_log),
    "shorten-log": ("{at: 2s, shorten-log: 2, for: 4s, count: 10}", _loses_the_end_of_the_log),
    "lose-checkpoints": ("{at: 2s, lose-checkpoints: 2, for: 4s}", _keeps_the_log),
    "wipe-disk": ("{at: 2s, wipe-disk: 2, for: 4s}", _empties_the_log),
    "roll-back-disk": ("{at: 2s, roll-back-disk: 2, for: 4s}", _loses_the_end_of_the_log),
    "step-clock": ("{at: 2s, step-clock: 2, by: -1h, for: 3s}", _shifts_the_wall_clock),
    "drift-clock": ("{at: 2s, drift-clock: 2, percent: 50, for: 4s}", _shifts_the_wall_clock),
    "freeze-clock": ("{at: 2s, freeze-clock: 2, for: 3s}", _shifts_the_wall_clock),
    "starve": ("{at: 2s, starve: 1, percent: 10, for: 3s}", _stops_again_and_again),
    "crash-loop": ("{at: 2s, crash-loop: 2, every: 1s, for: 5s}", lambda data: restarts(data, 2) >= 3),
    "slow-start": ("{at: 2s, slow-start: 2, for: 3s}", _registers_late),
    "restart-zookeeper": ("{at: 2s, restart-zookeeper: zookeeper}", _suspends_sessions),
    "pause-zookeeper": ("{at: 2s, pause-zookeeper: zookeeper, for: 5s}", _suspends_sessions),
    "slow-zookeeper": (
        "{at: 2s, slow-zookeeper: zookeeper, by: 400ms, for: 3s}\n  - {at: 3s, create-topic: late}",
        _delays_an_answer,
    ),
    "flap-zookeeper": ("{at: 2s, flap-zookeeper: 2, every: 300ms, for: 3s}", _suspends_a_session_often),
    "hold-watch": (
        "{at: 2s, hold-watch: controller, for: 1500ms}\n  - {at: 2200ms, create-topic: late}",
        _delays_a_watch,
    ),
}
"""By action: a step with it, and whether a run shows its effect."""

REAL = (
    ("wipe-disk",),
    ("corrupt-log",),
    ("flap-zookeeper",),
    ("hold-watch",),
    ("fail-flush",),
    ("slow-flush", "drift-clock"),
)
"""One or two of each family for processes, in one run those that leave both brokers up and do not affect each other.
All of them were run by hand."""


@pytest.mark.parametrize("action", EFFECTS)
def test_a_fault_has_its_effect_in_the_simulator(action: str, tmp_path: Path) -> None:
    steps, is_seen = EFFECTS[action]
    assert is_seen(held(outcome_of(SimulatedEngine, steps, tmp_path)))


def test_the_whole_share_has_all_faults_for_processes() -> None:
    assert SHARES["faults-on-processes"].whole == len(REAL)


@OF_PROCESSES
@pytest.mark.parametrize("actions", REAL[: share_of("faults-on-processes")], ids="-and-".join)
def test_a_fault_has_its_effect_on_processes(actions: tuple[str, ...], tmp_path: Path) -> None:
    steps = "\n  - ".join(EFFECTS[action][0] for action in actions)
    data = held(outcome_of(ProcessEngine, steps, tmp_path, lasts=ON_PROCESSES_LASTS))
    assert [action for action in actions if not EFFECTS[action][1](data)] == []


@OF_PROCESSES
@at_night("the faults that processes inject into themselves are tested in the simulator each time")
def test_files_are_limited_and_connections_opened_on_processes(tmp_path: Path) -> None:
    steps = "{at: 2s, limit-files: 2, count: 12, for: 3s}\n  - {at: 2500ms, flood: 1, connections: 40, for: 2s}"
    outcome = outcome_of(ProcessEngine, steps, tmp_path, lasts=ON_PROCESSES_LASTS)
    held(outcome)
    assert "Too many open files" in (tmp_path / "broker-2" / "broker.log").read_text()


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ("{at: 1s, slow-flush: 2, by: 10ms}", "slow-flush: broker-2 did not use its disk so"),
        ("{at: 1s, hold-watch: 2, for: 100ms}", "hold-watch: no watch event was sent to broker-2"),
        ("{at: 1s, hold: 1, to: [2], api: StopReplica, for: 100ms}", "hold: broker-1 sent no such request to broker-2"),
    ],
)
def test_a_fault_that_met_nothing_is_named(steps: str, why: str, tmp_path: Path) -> None:
    outcome = outcome_of(SimulatedEngine, steps, tmp_path, lasts="2s", load="load: {producers: 0, consumers: 0}\n")
    assert why in outcome.not_injected


def test_a_log_without_records_cannot_be_corrupted(tmp_path: Path) -> None:
    steps = "{at: 1s, corrupt-log: 2, for: 1s}"
    outcome = outcome_of(SimulatedEngine, steps, tmp_path, lasts="2s", load="load: {producers: 0, consumers: 0}\n")
    assert [each.failure for each in outcome.steps] == ["the disk has no log with records"]
    assert outcome.unsettled == ""


def test_a_loss_of_power_undoes_what_flushes_have_skipped(tmp_path: Path) -> None:
    def reopened(steps: str, folder: Path) -> tuple[int, int]:
        return reopened_at(held(outcome_of(SimulatedEngine, steps, folder)), 2)

    power = "{at: 4s, lose-power: 2, for: 4s}"
    before, after = reopened(power, tmp_path / "1")
    assert after == before, "each append was flushed"
    before, after = reopened(f"{{at: 1s, skip-flushes: 2}}\n  - {power}", tmp_path / "2")
    assert after < before


def test_a_flood_opens_connections_and_closes_them(tmp_path: Path) -> None:
    text = f"{HEAD}{CLUSTER}{LOAD}steps:\n  - {{at: 1s, flood: 1, connections: 60}}\n"
    plan = freeze(read_experiment(text, "f.yaml"), 3)
    engine = SimulatedEngine.begin(plan, tmp_path)
    try:
        before = engine.cluster.network.connections
        undo = engine.perform(1, Counted(name="flood", count=60), [1], ())
        engine.advance(engine.now_ms + 50, lambda record: False)
        opened = engine.cluster.network.connections - before
        assert opened >= 2 * 20, "half of the kinds of bad requests wait for more"
        assert undo is not None
        undo()
        engine.advance(engine.now_ms + 1_000, lambda record: False)
        assert engine.cluster.network.connections < before + opened / 2
    finally:
        engine.close()


def test_the_engines_can_do_as_many_kinds_as_they_promise() -> None:
    ends = {"heal", "resume", "start", "start-zookeeper"}
    kinds = {name for name, action in ACTIONS.items() if action.is_fault} - ends
    able = capabilities()
    assert kinds - able["sim"] == {"limit-files"}
    assert kinds - able["real"] == {"lose-power", "skip-flushes"}
    assert len(kinds & able["sim"]) >= 40
    assert len(kinds & able["real"]) >= 30
    assert len(kinds & able["compose"]) >= 30


def test_faults_that_kill_do_so_once(tmp_path: Path) -> None:
    path = tmp_path / "faults.json"
    path.write_text('{"disk": [{"name": "a", "operations": ["append"], "kills": true}]}')
    (fault,) = FaultsFile(path).current().disk
    assert not FaultsFile(path).is_over(fault)
    FaultsFile(path).applied("a")
    assert FaultsFile(path).is_over(fault), "the process after the one that it has killed"
