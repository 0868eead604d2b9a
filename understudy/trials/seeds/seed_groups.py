"""The consumer groups of a seed: members that join, leave, end without leaving and start again while faults happen.

Each life of a member is a value that is drawn before the run. Beside the members, watchers fetch the offsets of each
group, and two groups without members commit once, early: these offsets must still be there at the end.
`understudy.checks.groups` judges the history of all of them.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Collection, Coroutine, Sequence
from functools import partial
from typing import Annotated

import msgspec

from understudy.checks.group_records import add_records
from understudy.clusters.clients.assignors.protocol import PROTOCOLS
from understudy.clusters.clients.group_load import GroupLoad
from understudy.clusters.clients.group_member import MemberSettings
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.foundation.cluster.identifiers import TopicPartition

SHARE = 0.5
"""The share of seeds that have groups."""
SETTINGS = {"offsets.topic.num.partitions": "3", "group.initial.rebalance.delay.ms": "500"}
"""Settings of all brokers in a seed with groups."""
KEEPERS = ("keeper-1", "keeper-2")
"""Groups without members, which commit once."""
ASSIGNORS = (*((name,) for name in PROTOCOLS), ("roundrobin", "range"))
SETTLE_TIMEOUT_MS = 40_000
"""Time in which groups must rebalance when the cluster has settled: sessions and rebalances that time out, twice."""

_SESSION_MS = 6_000
_STEP_S = 1.2
_BACKOFF_MS = 400
_KEEPERS_COMMIT_AT_MS = 300
_KEPT_OFFSET = 3
_RECORDS = re.compile(
    b'"(__consumer_offsets|GroupsLoaded|GroupTransition|GroupAssigned|OffsetsCommitted|OffsetsRemoved)"'
)


class PlannedMember(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One life of a member of a group.

    Attributes:
        name: unique in the plan.
        assignors: the preferred one first; all cooperative or all eager.
        instance: the instance id of a static member; its next life has the same one.
        ends_at_ms: when it ends; None if it stays.
        leaves: False if it ends without leaving the group, so that its session has to time out.
    """

    group: Annotated[str, msgspec.Meta(min_length=1)]
    name: Annotated[str, msgspec.Meta(min_length=1)]
    topics: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    assignors: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    instance: str | None = None
    joins_at_ms: Annotated[int, msgspec.Meta(ge=0)]
    ends_at_ms: Annotated[int, msgspec.Meta(ge=0)] | None = None
    leaves: bool = True

    def __str__(self) -> str:
        kind = "" if self.instance is None else f", static as {self.instance}"
        until = ""
        if self.ends_at_ms is not None:
            until = f" until {self.ends_at_ms} ms, then {'leaves' if self.leaves else 'ends without a word'}"
        return f"{self.joins_at_ms:6d} ms  {self.name} joins {self.group} by {', '.join(self.assignors)}{kind}{until}"


def draw_members(source: random.Random, topics: Sequence[str], *, until_ms: int) -> tuple[PlannedMember, ...]:
    """Draw one to three groups of one to three members for half of the seeds, and none for the others.

    Args:
        topics: the topics that members may read; the members of one group read the first one or all.
        until_ms: the time until which members start and end.
    """
    if source.random() >= SHARE:
        return ()
    members: list[PlannedMember] = []
    for number in range(1, source.randint(1, 3) + 1):
        group, assignors = f"readers-{number}", source.choice(ASSIGNORS)
        read = source.choice((tuple(topics[:1]), tuple(topics)))
        for place in range(1, source.randint(1, 3) + 1):
            name = f"{group}.{place}"
            instance = name if source.random() < 0.3 else None
            for life, (joins_at_ms, ends_at_ms) in enumerate(_draw_lives(source, until_ms), 1):
                members.append(
                    PlannedMember(
                        group=group,
                        name=f"{name}.{life}",
                        topics=read,
                        assignors=assignors,
                        instance=instance,
                        joins_at_ms=joins_at_ms,
                        ends_at_ms=ends_at_ms,
                        leaves=source.random() < 0.5,
                    )
                )
    return tuple(members)


def _draw_lives(source: random.Random, until_ms: int) -> list[tuple[int, int | None]]:
    """Draw when a member starts and ends, again and again; the last life may have no end."""
    lives: list[tuple[int, int | None]] = []
    now = source.randint(0, min(6_000, until_ms))
    while now < until_ms:
        end = now + 2_000 + int(source.expovariate(1 / 15_000))
        lives.append((now, end if end < until_ms else None))
        if source.random() < 0.15:
            break
        now = end + source.choice((200, 1_500, _SESSION_MS + 2_000))
    return lives


class SeedGroups:
    """The members of a plan, watchers of their groups, and groups that commit once.

    Args:
        members: none for a seed without groups; then nothing runs.
        partitions: the partitions of the topics that the members read.
    """

    def __init__(
        self, cluster: SimulatedCluster, members: Collection[PlannedMember], partitions: Sequence[TopicPartition]
    ) -> None:
        self._cluster = cluster
        self._members = tuple(members)
        self._partitions = tuple(partitions)
        self._load = GroupLoad(
            cluster.client_network,
            cluster.simulator.clock,
            lambda: cluster.bootstrap,
            step_s=_STEP_S,
            watch_backoff_ms=_BACKOFF_MS,
            open_log=cluster.open_client_log,
        )
        self.history = self._load.history

    def start(self) -> None:
        """Schedule the members, and begin to watch. Lets no time pass."""
        if not self._members:
            return
        began_ms = self._cluster.now_ms
        kept = dict.fromkeys(self._partitions, _KEPT_OFFSET)
        for group in KEEPERS:
            self._begin(_KEEPERS_COMMIT_AT_MS, partial(self._load.commit_once, group, kept))
        for group in (*KEEPERS, *dict.fromkeys(member.group for member in self._members)):
            self._begin(_KEEPERS_COMMIT_AT_MS, partial(self._load.watch, group, self._partitions))
        for member in self._members:
            self._begin(member.joins_at_ms, partial(self._life, member, began_ms))

    def stop(self) -> None:
        """Wait until every group has settled, end all members, and fetch every committed offset.

        Raises:
            WaitTimedOut: a member does not end.
        """
        if not self._members:
            return
        self._cluster.ask(self._load.wait_until_settled(SETTLE_TIMEOUT_MS))
        self._load.is_stopping = True
        self._cluster.wait_until(lambda: not self._load.running, "the members of groups have ended")
        self._cluster.ask(self._load.fetch_at_end())

    def note_records(self) -> None:
        """Add the records of coordinators, and excuse the groups that may have lost offsets."""
        if self._members:
            of_each = zip(self._cluster.log_lines, self._cluster.records(), strict=True)
            add_records(self.history, (record for line, record in of_each if _RECORDS.search(line)))

    async def _life(self, member: PlannedMember, began_ms: float) -> None:
        settings = MemberSettings(
            group_id=member.group,
            topics=member.topics,
            assignors=member.assignors,
            instance_id=member.instance,
            session_timeout_ms=_SESSION_MS,
            rebalance_timeout_ms=_SESSION_MS,
            heartbeat_interval_ms=1_500,
            join_timeout_ms=10_000,
            backoff_ms=_BACKOFF_MS,
        )
        ends_at_ms = math.inf if member.ends_at_ms is None else began_ms + member.ends_at_ms
        await self._load.run(
            member.name, settings, until=lambda: self._cluster.now_ms >= ends_at_ms, leaves=member.leaves
        )

    def _begin(self, after_ms: int, work: Callable[[], Coroutine[object, object, None]]) -> None:
        self._cluster.after(after_ms, lambda: self._cluster.begin(work()))
