"""Runs seeds: each draws a plan, of a cluster, faults and a workload, runs it, and judges the run.

`run_plan` runs every check over the event logs and the history of the znodes, and checks that the cluster settles after
the last fault; `run_seed` draws the plan first. The report of a failed seed names the command that replays it.
"""

from __future__ import annotations

import shlex
from collections import Counter, deque
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from multiprocessing.pool import AsyncResult
from pathlib import Path

from understudy.checks.client_history import PartitionsAreReadToTheEnd, check_clients
from understudy.checks.groups import RebalancesEnd, check_groups
from understudy.clusters.cluster import ClusterError, Unsettled
from understudy.clusters.findings import FindingKind
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.clusters.simulated.loop import BudgetExhausted, Deadlock
from understudy.clusters.simulated.randomness import derived
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.eventlog.fences import SWITCHES, Switch
from understudy.foundation.times import duration
from understudy.trials.seeds.client_load import (
    CLEANER_SETTINGS,
    COMPACTED_PARTITIONS,
    COMPACTION,
    PARTITIONS,
    SeedClients,
)
from understudy.trials.seeds.faults import schedule_faults
from understudy.trials.seeds.judgement import SeedJudgement, judge
from understudy.trials.seeds.seed_groups import SETTINGS as GROUP_SETTINGS
from understudy.trials.seeds.seed_groups import SeedGroups
from understudy.trials.seeds.seed_plans import SeedPlan, draw_plan
from understudy.trials.seeds.settling import SETTLE_TIMEOUT_S, settle_after_faults
from understudy.trials.seeds.worker_processes import worker_pool
from understudy.trials.seeds.workload import schedule_actions

DEFAULT_SECONDS = 30
_QUIET_MS = 2_000
_WAITING_PER_WORKER = 4
"""Number of seeds per worker that are given out at once: a long seed does not leave other workers without work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedReport:
    """The result of one seed. It is good when `problems` is empty."""

    plan: SeedPlan
    problems: tuple[str, ...]
    judgement: SeedJudgement
    settled_after_ms: float
    """Time from the end of the last fault, or the return of an absent broker, until the cluster had settled."""
    examined: Counter[FindingKind]
    """Number of cases that the search for findings has examined in the whole run, by kind."""
    transactions: int
    messages: int
    callbacks: int
    acknowledged: int
    """Number of producers' records that were acknowledged."""
    clients_tested: Mapping[str, int]
    """Number of cases that each check of the clients' and of the groups' history has examined, by id."""
    plan_file: Path | None = None
    """The file that the plan was read from; None if the seed drew it."""

    @property
    def command(self) -> str:
        """The command line that replays this run."""
        if self.plan_file is not None:
            return f"understudy simulate --plan {shlex.quote(str(self.plan_file))}"
        seconds = "" if self.plan.seconds == DEFAULT_SECONDS else f" --seconds {self.plan.seconds}"
        fences = "+".join(self.plan.fences_off)
        without = f" --without {fences}" if fences else ""
        return f"understudy simulate --seed {self.plan.seed}{seconds}{self._not_drawn}{without}"

    @property
    def _not_drawn(self) -> str:
        """The options for what differs from the plan that the seed draws."""
        drawn = draw_plan(self.plan.seed, self.plan.seconds)
        is_without = not self.plan.members and COMPACTION not in self.plan.load
        no_groups = " --no-groups" if is_without and (drawn.members or COMPACTION in drawn.load) else ""
        own_clocks = self.plan.own_clocks
        return no_groups + ("" if own_clocks == drawn.own_clocks else f" --clocks {'own' if own_clocks else 'one'}")

    def __str__(self) -> str:
        head = (
            f"seed {self.plan.seed}: {'FAILED' if self.problems else 'ok'}; {len(self.plan.schedule.faults)} faults, "
            f"{len(self.plan.actions)} client actions, {self.judgement.elections} controller elections, "
            f"{self.transactions} transactions, {self.judgement.records} records, "
            f"{self.acknowledged} records of producers acknowledged, "
            f"after the last fault it settled in {duration(self.settled_after_ms)}"
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
    groups: bool = True,
    own_clocks: bool | None = None,
    fences_off: tuple[Switch, ...] = (),
    events: Path | None = None,
) -> SeedReport:
    """Run one seed for `seconds` of simulated time, two thirds of it under faults.

    Args:
        brokers, partitions, groups, own_clocks: as in `draw_plan`.
        fences_off: fences and fixes that are switched off, to see which check finds the defect.
        events: the folder in which to leave the event logs, in the layout of a run on processes; None for none.
    """
    plan = draw_plan(
        seed,
        seconds,
        brokers=brokers,
        partitions=partitions,
        groups=groups,
        own_clocks=own_clocks,
        fences_off=fences_off,
    )
    return run_plan(plan, events=events)


def run_plan(plan: SeedPlan, *, events: Path | None = None) -> SeedReport:
    """Run a plan, as a seed has drawn it or as shrinking has left it, and judge the run.

    Args:
        events: as in `run_seed`.
    """
    schedule = plan.schedule
    cluster = _cluster_of(plan)
    problems: list[str] = []
    settled_after_ms = 0.0
    clients = SeedClients(cluster, derived(plan.seed, "clients"), plan.load)
    read = (*PARTITIONS, *COMPACTED_PARTITIONS) if COMPACTION in plan.load else PARTITIONS
    groups = SeedGroups(cluster, plan.members, read)
    try:
        cluster.start()
        cluster.create_topic("orders", partitions=plan.partitions, replication_factor=3)
        clients.start()
        groups.start()
        schedule_faults(cluster, schedule)
        schedule_actions(cluster, plan.actions)
        cluster.run_for(schedule.healed_at_ms + 1)
        healed_at_ms = cluster.now_ms
        if plan.absent is not None:
            _settle_without(cluster, BrokerId(plan.absent))
        whole_at_ms = cluster.now_ms
        settle_after_faults(cluster, SETTLE_TIMEOUT_S)
        settled_after_ms = cluster.now_ms - whole_at_ms
        since_healed_ms = cluster.now_ms - healed_at_ms
        cluster.run_for(max(_QUIET_MS, plan.seconds * 1000 - schedule.healed_at_ms - since_healed_ms))
        # An automatic preferred election may be in progress at this moment.
        settle_after_faults(cluster, _QUIET_MS / 1000)
        groups.stop()
        clients.stop()
    except (ClusterError, Deadlock, BudgetExhausted) as finding:
        problems.append(f"{type(finding).__name__}: {finding}")
    finally:
        cluster.close()
    if events is not None:
        cluster.dump(events)
    judgement = judge(cluster)
    clients.note_losses()
    groups.note_records()
    seen, of_groups = check_clients(clients.history), check_groups(groups.history)
    # If the run has ended early, there was no final phase in which everything is read, and groups settle.
    untested = {PartitionsAreReadToTheEnd.id, RebalancesEnd.id} if problems else set()
    violations = (*seen.violations, *of_groups.violations)
    problems += (str(violation) for violation in violations if violation.check not in untested)
    return SeedReport(
        plan=plan,
        problems=(*problems, *judgement.problems),
        judgement=judgement,
        settled_after_ms=settled_after_ms,
        examined=cluster.examined,
        transactions=len(cluster.zookeeper.transactions),
        messages=cluster.network.messages,
        callbacks=cluster.loop.executed,
        acknowledged=clients.history.acknowledged,
        clients_tested=seen.times_tested | of_groups.times_tested,
    )


def _cluster_of(plan: SeedPlan) -> SimulatedCluster:
    """Create the cluster of a plan, with its settings and clocks."""
    settings = {"understudy.events.logs": "true"}
    if plan.unclean_election:
        settings["unclean.leader.election.enable"] = "true"
    if plan.members:
        settings |= GROUP_SETTINGS | CLEANER_SETTINGS
    if COMPACTION in plan.load:
        settings |= CLEANER_SETTINGS
    fences_off = tuple(SWITCHES[name] for name in plan.fences_off)
    cluster = SimulatedCluster(
        plan.seed,
        brokers=plan.brokers,
        settings=settings,
        fences_off=fences_off,
        reordering=plan.reordering,
        own_clocks=plan.own_clocks,
    )
    if plan.wrong_clocks:
        _set_clocks_wrong(cluster)
    return cluster


def _settle_without(cluster: SimulatedCluster, broker_id: BrokerId) -> None:
    """Kill a broker, let the others settle without it (L8), and start it again.

    Raises:
        Unsettled: something is left that does not need the absent broker.
    """
    absent = cluster.broker(broker_id)
    if absent.is_running:
        absent.kill()
    absent.should_run = False
    try:
        settle_after_faults(cluster, SETTLE_TIMEOUT_S)
    except Unsettled as unsettled:
        raise Unsettled(f"L8, without {absent.name}: {unsettled}") from None
    absent.begin_start()


def _set_clocks_wrong(cluster: SimulatedCluster) -> None:
    """Set the wall clocks up to ten minutes wrong, and let brokers measure times up to 0.1 % too long or too short."""
    draw = derived(cluster.seed, "clocks")
    for broker in cluster.brokers:
        broker.node.clock.offset_ms = draw.uniform(-600_000, 600_000)
        broker.node.clock.drift = draw.uniform(-0.001, 0.001)


def run_seeds(
    seeds: Iterable[int],
    seconds: int = DEFAULT_SECONDS,
    *,
    workers: int = 1,
    own_clocks: bool | None = None,
    fences_off: tuple[Switch, ...] = (),
) -> Generator[SeedReport]:
    """Run many seeds on `workers` processes; their reports come in the order of `seeds`.

    `seeds` may be endless: each is taken when a worker is nearly free. `own_clocks` is as in `draw_plan`.
    """
    run = partial(run_seed, seconds=seconds, own_clocks=own_clocks, fences_off=fences_off)
    if workers <= 1:
        yield from map(run, seeds)
        return
    with worker_pool(workers, runs_per_process=50) as pool:
        waiting: deque[AsyncResult[SeedReport]] = deque()
        for seed in seeds:
            waiting.append(pool.apply_async(run, (seed,)))
            if len(waiting) > _WAITING_PER_WORKER * workers:
                yield waiting.popleft().get()
        while waiting:
            yield waiting.popleft().get()
