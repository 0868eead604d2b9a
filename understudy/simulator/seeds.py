"""Runs seeds: each draws a cluster, a schedule of faults and a workload, runs them, and judges the run.

`run_seed` runs every check over the event logs and the history of the znodes, and checks that the cluster settles after
the last fault. The report of a failed seed names the command that replays it.
"""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from foundation.eventlog.fences import Switch
from understudy.checkers.client_history import Outcome, check_clients
from understudy.cluster import Unsettled
from understudy.findings import FindingKind
from understudy.simulator.client_load import SeedClients
from understudy.simulator.cluster import SimulatedCluster
from understudy.simulator.faults import Schedule, draw_schedule, schedule_faults
from understudy.simulator.judgement import Judgement, judge
from understudy.simulator.loop import BudgetExhausted, Deadlock
from understudy.simulator.randomness import derived
from understudy.simulator.workload import ClientAction, draw_actions, schedule_actions

DEFAULT_SECONDS = 30
SETTLE_TIMEOUT_S = 30.0
"""How long the cluster may take to settle after the last fault: a controlled shutdown in progress, a session timeout,
the return of a replica to the ISR, and a reserve."""

_QUIET_MS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedReport:
    """The result of one seed. It is good when `problems` is empty."""

    seed: int
    seconds: int
    problems: tuple[str, ...]
    schedule: Schedule
    actions: tuple[ClientAction, ...]
    judgement: Judgement
    settled_after_ms: float
    """From the end of the last fault until the cluster had settled."""
    examined: Counter[FindingKind]
    """How many cases the search for findings has examined in the whole run, by kind."""
    transactions: int
    messages: int
    callbacks: int
    acknowledged: int
    """Records that producers were acknowledged."""
    clients_tested: Mapping[str, int]
    """How many cases each check of the clients' history, by id, has examined."""

    @property
    def command(self) -> str:
        """The command line that replays this seed."""
        seconds = "" if self.seconds == DEFAULT_SECONDS else f" --seconds {self.seconds}"
        return f"understudy simulate --seed {self.seed}{seconds}"

    @property
    def plan(self) -> str:
        """The faults and the clients' actions in order of time, one line each."""
        faults = [(fault.at_ms, str(fault)) for fault in self.schedule.faults]
        planned = sorted([*faults, *((action.at_ms, str(action)) for action in self.actions)])
        return "\n".join([*(line for _, line in planned), f"{self.schedule.healed_at_ms:6d} ms  heal"])

    def __str__(self) -> str:
        head = (
            f"seed {self.seed}: {'FAILED' if self.problems else 'ok'}; {len(self.schedule.faults)} faults, "
            f"{len(self.actions)} client actions, {self.judgement.elections} controller elections, "
            f"{self.transactions} transactions, {self.judgement.records} records, "
            f"{self.acknowledged} records of producers acknowledged, "
            f"settled {self.settled_after_ms:.0f} ms after the last fault"
        )
        if not self.problems:
            return head
        problems = "\n".join(f"  {problem}" for problem in self.problems)
        return f"{head}\n{problems}\n  replay it: {self.command}"


def run_seed(
    seed: int,
    seconds: int = DEFAULT_SECONDS,
    *,
    brokers: int | None = None,
    partitions: int | None = None,
    fences_off: tuple[Switch, ...] = (),
    events: Path | None = None,
) -> SeedReport:
    """Run one seed for `seconds` of simulated time, two thirds of it under faults.

    Args:
        brokers, partitions: numbers to use instead of drawn ones.
        fences_off: fences and fixes that are switched off, to see which check notices it.
        events: the folder in which to leave the event logs, in the layout of a run on processes; None for none.
    """
    draw = derived(seed, "scenario")
    drawn_brokers, drawn_partitions = draw.randint(3, 5), draw.randint(1, 6)
    reordering = draw.random() < 0.5
    brokers, partitions = brokers or drawn_brokers, partitions or drawn_partitions
    schedule = draw_schedule(derived(seed, "faults"), brokers=brokers, duration_ms=seconds * 1000)
    # The name stays: each seed's random numbers are derived from it.
    actions = draw_actions(derived(seed, "deeds"), until_ms=schedule.healed_at_ms)
    settings = {"understudy.events.logs": "true"}
    if draw.random() < 0.25:
        settings["unclean.leader.election.enable"] = "true"
    cluster = SimulatedCluster(seed, brokers=brokers, settings=settings, fences_off=fences_off, reordering=reordering)
    if draw.random() < 0.5:
        _set_clocks_wrong(cluster)
    problems: list[str] = []
    settled_after_ms = 0.0
    clients = SeedClients(cluster, derived(seed, "clients"))
    try:
        cluster.start()
        cluster.create_topic("orders", partitions=partitions, replication_factor=3)
        clients.start()
        schedule_faults(cluster, schedule)
        schedule_actions(cluster, actions)
        cluster.run_for(schedule.healed_at_ms + 1)
        healed_at_ms = cluster.now_ms
        cluster.settle(timeout_s=SETTLE_TIMEOUT_S)
        settled_after_ms = cluster.now_ms - healed_at_ms
        cluster.run_for(max(_QUIET_MS, seconds * 1000 - schedule.healed_at_ms - settled_after_ms))
        # An automatic preferred election may be in progress at this moment.
        cluster.settle(timeout_s=_QUIET_MS / 1000)
        clients.stop()
    except (Unsettled, Deadlock, BudgetExhausted) as finding:
        problems.append(f"{type(finding).__name__}: {finding}")
    finally:
        cluster.close()
    if events is not None:
        cluster.dump(events)
    judgement = judge(cluster)
    seen = check_clients(clients.history)
    problems += map(str, seen.violations)
    return SeedReport(
        seed=seed,
        seconds=seconds,
        problems=(*problems, *judgement.problems),
        schedule=schedule,
        actions=actions,
        judgement=judgement,
        settled_after_ms=settled_after_ms,
        examined=cluster.examined,
        transactions=len(cluster.zookeeper.transactions),
        messages=cluster.network.messages,
        callbacks=cluster.loop.executed,
        acknowledged=sum(send.outcome is Outcome.OK for send in clients.history.sends),
        clients_tested=seen.times_tested,
    )


def _set_clocks_wrong(cluster: SimulatedCluster) -> None:
    """Set the clocks up to ten minutes wrong, and let them run up to 0.1 % too fast or too slow."""
    draw = derived(cluster.seed, "clocks")
    for broker in cluster.brokers:
        broker.node.clock.offset_ms = draw.uniform(-600_000, 600_000)
        broker.node.clock.drift = draw.uniform(-0.001, 0.001)


def run_seeds(
    seeds: Iterable[int], seconds: int = DEFAULT_SECONDS, *, workers: int = 1, fences_off: tuple[Switch, ...] = ()
) -> Iterator[SeedReport]:
    """Run many seeds on `workers` processes; their reports come in the order of `seeds`."""
    run = partial(run_seed, seconds=seconds, fences_off=fences_off)
    if workers <= 1:
        yield from map(run, seeds)
        return
    with multiprocessing.get_context("fork").Pool(workers, maxtasksperchild=50) as pool:
        yield from pool.imap(run, seeds, chunksize=2)
