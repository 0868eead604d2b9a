"""`SeedPlan`: all that a seed draws before its run, as values that can be printed, saved, shrunk and replayed.

A seed draws two to six kinds of fault and two to five kinds of client action out of all, how often they come, whether
clocks are wrong, callbacks are reordered and unclean elections are allowed, and whether a broker is away at the end. So
seeds differ in what they can find (swarm testing): a frequent fault does not hide the effects of the others in all of
them.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from understudy.clusters.simulated.randomness import derived
from understudy.foundation.eventlog.fences import Switch
from understudy.trials.seeds.client_load import COMPACTION, LOAD, PARTS, READ_TOPICS
from understudy.trials.seeds.faults import Schedule, draw_schedule
from understudy.trials.seeds.seed_groups import PlannedMember, draw_members
from understudy.trials.seeds.workload import ClientAction, draw_actions

MOST_SECONDS = 86_400
COMPACTED_SHARE = 0.5
"""The share of seeds with a topic that is compacted."""
OWN_CLOCKS_SHARE = 0.1
"""The share of seeds in which each node has a monotonic clock of its own."""


class SeedPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The plan of one run of a seed. Equal plans give equal runs, event logs included.

    Attributes:
        seed: the number from which the run's further random numbers are derived, for example delays of the network.
        seconds: simulated seconds of the run; it lasts longer if the cluster has not settled by then.
        brokers: the number of brokers. Topics have three replicas.
        partitions: the number of partitions of the first topic.
        reordering: whether the order in which processes run their callbacks is changed at random.
        unclean_election: `unclean.leader.election.enable` of all brokers.
        wrong_clocks: whether the wall clocks are up to ten minutes wrong, and brokers measure times up to 0.1 % too
            long or too short.
        own_clocks: whether each node has a monotonic clock of its own, as nodes on several machines have. Only times
            in the event log depend on it.
        absent: the id of a broker that is killed when all is healed, and starts when the others have settled (L8); None
            for none.
        schedule: the faults.
        actions: the actions of clients and operators.
        load: the parts of the clients' load that run.
        members: the members of consumer groups; none for a seed without groups.
        fences_off: the names of fences and fixes that are switched off.
    """

    seed: Annotated[int, msgspec.Meta(ge=0)]
    seconds: Annotated[int, msgspec.Meta(ge=1, le=MOST_SECONDS)]
    brokers: Annotated[int, msgspec.Meta(ge=3, le=100)]
    partitions: Annotated[int, msgspec.Meta(ge=1, le=1_000)]
    reordering: bool
    unclean_election: bool
    wrong_clocks: bool
    own_clocks: bool = False
    absent: Annotated[int, msgspec.Meta(ge=1)] | None = None
    schedule: Schedule
    actions: tuple[ClientAction, ...]
    load: tuple[str, ...] = LOAD
    members: tuple[PlannedMember, ...] = ()
    fences_off: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The faults, the clients' actions and the members of groups in order of time, one line each."""
        planned = [(fault.at_ms, str(fault)) for fault in self.schedule.faults]
        planned += [(action.at_ms, str(action)) for action in self.actions]
        planned += [(member.joins_at_ms, str(member)) for member in self.members]
        absent = "" if self.absent is None else f", and kill broker {self.absent} until the others have settled"
        return "\n".join([*(line for _, line in sorted(planned)), f"{self.schedule.healed_at_ms:6d} ms  heal{absent}"])


def draw_plan(
    seed: int,
    seconds: int,
    *,
    brokers: int | None = None,
    partitions: int | None = None,
    groups: bool = True,
    own_clocks: bool | None = None,
    fences_off: tuple[Switch, ...] = (),
) -> SeedPlan:
    """Draw the plan of a seed for `seconds` of simulated time, two thirds of it under faults.

    Args:
        brokers, partitions: numbers to use instead of drawn ones.
        groups: whether the seed may have consumer groups and a compacted topic. Seeds of older versions have none.
        own_clocks: as in `SeedPlan`; None to let the seed draw it.
        fences_off: fences and fixes to switch off, to see which check finds the defect.
    """
    draw = derived(seed, "scenario")
    drawn_brokers, drawn_partitions = draw.randint(3, 5), draw.randint(1, 6)
    reordering, unclean_election, wrong_clocks = draw.random() < 0.5, draw.random() < 0.25, draw.random() < 0.5
    brokers = brokers or drawn_brokers
    draw_absent = derived(seed, "absent")
    absent = draw_absent.randint(1, brokers) if draw_absent.random() < 0.25 else None
    schedule = draw_schedule(derived(seed, "faults"), brokers=brokers, duration_ms=seconds * 1000)
    if own_clocks is None:
        own_clocks = derived(seed, "own clocks").random() < OWN_CLOCKS_SHARE
    load: tuple[str, ...] = LOAD
    members: tuple[PlannedMember, ...] = ()
    if groups:
        is_compacted = derived(seed, COMPACTION).random() < COMPACTED_SHARE
        load = PARTS if is_compacted else LOAD
        topics = READ_TOPICS if is_compacted else READ_TOPICS[:1]
        members = draw_members(derived(seed, "groups"), topics, until_ms=schedule.healed_at_ms)
    return SeedPlan(
        seed=seed,
        seconds=seconds,
        brokers=brokers,
        partitions=partitions or drawn_partitions,
        reordering=reordering,
        unclean_election=unclean_election,
        wrong_clocks=wrong_clocks,
        own_clocks=own_clocks,
        absent=absent,
        schedule=schedule,
        # The name must not change: each seed's random numbers are derived from it.
        actions=draw_actions(derived(seed, "deeds"), until_ms=schedule.healed_at_ms),
        load=load,
        members=members,
        fences_off=tuple(switch.value for switch in fences_off),
    )
