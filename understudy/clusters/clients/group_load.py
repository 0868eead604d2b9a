"""`GroupLoad`: members of a consumer group over the `Network` port, and the history of what they have seen.

`understudy.checks.groups` judges the history.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence

from understudy.checks.groups import (
    Commit,
    GroupHistory,
    Join,
    LastState,
    OffsetFetch,
    Ownership,
    unfinished_groups,
)
from understudy.clusters.clients.client_events import OpenClientLog
from understudy.clusters.clients.connections import Connections, NoLeader
from understudy.clusters.clients.consumer import Consumer
from understudy.clusters.clients.group_coordinator_link import CoordinatorLink
from understudy.clusters.clients.group_member import GroupMember, MemberRefused, MemberSettings
from understudy.clusters.clients.group_offsets import GroupOffsetsClient
from understudy.clusters.clients.load import OUTCOMES, Load
from understudy.clusters.clients.member_events import (
    Assigned,
    CommitEnded,
    JoinBegan,
    JoinEnded,
    MemberEvent,
    OffsetsFetched,
    Released,
)
from understudy.clusters.clients.member_states import MemberMoved
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.eventlog.clock import Clock
from understudy.foundation.wire.network import Network

_STEP_S = 0.2
_LOOK_S = 0.5
_POLL_MS = 100
_WATCH_TIMEOUT_MS = 5_000
_WATCH_BACKOFF_MS = 20


class GroupLoad(Load):
    """Members of one or more groups, each of which reads its assigned partitions and commits its offsets.

    Args:
        step_s: the pause of a member between two reads of its partitions, and of a watcher between two fetches.
        watch_backoff_ms: the pause of a watcher after a refusal.
        open_log: as in `Load`.
    """

    def __init__(
        self,
        network: Network,
        clock: Clock,
        bootstrap: Callable[[], Sequence[str]],
        *,
        step_s: float = _STEP_S,
        watch_backoff_ms: int = _WATCH_BACKOFF_MS,
        open_log: OpenClientLog | None = None,
    ) -> None:
        super().__init__(network, clock, bootstrap, open_log)
        self.history = GroupHistory()
        self._step_s = step_s
        self._watch_backoff_ms = watch_backoff_ms
        self._members: dict[str, tuple[MemberSettings, GroupMember]] = {}

    async def run(
        self, name: str, settings: MemberSettings, *, until: Callable[[], bool] = lambda: False, leaves: bool = True
    ) -> None:
        """Be a member until `is_stopping`, or until `until` is true; then leave, unless all are stopping.

        Args:
            name: the client id, unique among the members that run.
            leaves: whether it sends LeaveGroup at its end; otherwise its session has to time out.
        """
        with self.client(name, is_recorded=True) as connections:
            to_history = Recorder(self.history, settings, name)
            to_log = connections.events.member(settings.group_id)

            def note(event: MemberEvent) -> None:
                to_history(event)
                if isinstance(event, MemberMoved):
                    to_log(event)

            member = GroupMember(connections, self._clock, settings, note)
            self._members[name] = settings, member
            consumer = Consumer(connections)
            positions: dict[TopicPartition, int] = {}
            try:
                while not self.is_stopping and not until():
                    await self._step(member, consumer, positions)
                    await asyncio.sleep(self._step_s)
                if not self.is_stopping:
                    if leaves:
                        await member.leave()
                    del self._members[name]
            except MemberRefused:
                # The refusal is in the history; the other members of the group continue.
                del self._members[name]

    async def watch(self, group_id: str, partitions: Sequence[TopicPartition]) -> None:
        """Fetch the offsets of a group again and again until `is_stopping`, without being a member.

        A new coordinator that has lost offsets is seen before members have committed newer ones.
        """
        with self.client(f"watcher of {group_id}") as connections:
            offsets = self._offsets(connections, group_id)
            while not self.is_stopping:
                await offsets.fetch(partitions)
                await asyncio.sleep(self._step_s)

    async def commit_once(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets of a group, of which it is no member, until all are acknowledged, and then never again.

        If a coordinator loses these offsets, no later commit restores them.
        """
        with self.client(f"keeper of {group_id}") as connections:
            while not self.is_stopping and await self._offsets(connections, group_id).commit(offsets):
                await asyncio.sleep(self._step_s)

    async def fetch_at_end(self) -> None:
        """Fetch the offsets of every partition that was committed; to be called when the cluster has recovered."""
        committed: dict[str, set[TopicPartition]] = {}
        for commit in self.history.commits:
            committed.setdefault(commit.group, set()).add(TopicPartition(*commit.partition))
        found = self.history.fetched_at_end = set()
        for group_id in sorted(committed):
            with self.client(f"reader of {group_id}") as connections:
                offsets = self._offsets(connections, group_id, is_final=True)
                if await offsets.fetch(sorted(committed[group_id])) is not None:
                    found.add(group_id)

    async def wait_until_settled(self, timeout_ms: int) -> None:
        """Wait until every group has one generation and owners of all partitions, then note what each member has.

        After `timeout_ms` it notes what each member has even if the groups have not settled (see G3).
        """
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        while self._clock.monotonic_ms() < deadline_ms:
            with contextlib.suppress(NoLeader):
                await self.note_last_states()
                if not any(unfinished_groups(self.history).values()):
                    return
            await asyncio.sleep(_LOOK_S)

    async def note_last_states(self) -> None:
        """Note what each running member has, and what their groups are to read; raises NoLeader."""
        self.history.last.clear()
        with self.client("groups") as connections:
            for name, (settings, member) in tuple(self._members.items()):  # some leave while brokers answer
                group = settings.group_id
                generation = None if member.needs_to_join else member.generation
                self.history.last.append(LastState(group, name, generation, frozenset(member.owned)))
                described = await connections.describe_topics(settings.topics)
                every = {(topic, number) for topic, count in described.counts.items() for number in range(count)}
                self.history.to_be_read[group] = self.history.to_be_read.get(group, frozenset()) | every
        self.history.last[:] = [state for state in self.history.last if state.name in self._members]

    def _offsets(self, connections: Connections, group_id: str, *, is_final: bool = False) -> GroupOffsetsClient:
        """The offsets of a group, for a client that is no member."""
        recorder = Recorder(self.history, MemberSettings(group_id=group_id, topics=()), "", is_final=is_final)
        link = CoordinatorLink(connections, group_id)
        return GroupOffsetsClient(link, self._clock, _WATCH_TIMEOUT_MS, self._watch_backoff_ms, recorder)

    async def _step(self, member: GroupMember, consumer: Consumer, positions: dict[TopicPartition, int]) -> None:
        """Join if need be, renew the session, read a little of each partition, and commit."""
        if member.needs_to_join:
            await member.join()
            for lost in positions.keys() - set(member.owned):
                del positions[lost]
        new = [partition for partition in member.owned if partition not in positions]
        if new:
            fetched = await member.offsets.fetch(new)
            positions |= {each: max(offset, 0) for each, offset in (fetched or {}).items()}
        read: dict[TopicPartition, int] = {}
        for partition in member.owned:
            await member.heartbeat()
            if partition in positions and not member.needs_to_join:
                polled = await consumer.poll(partition, positions[partition], max_wait_ms=_POLL_MS)
                if polled.next_offset != positions[partition]:
                    read[partition] = positions[partition] = polled.next_offset
        await member.heartbeat()
        still_owned = {each: offset for each, offset in read.items() if each in member.owned}
        if still_owned:
            await member.commit(still_owned)


class Recorder:
    """Takes what one member notes into a history.

    Args:
        name: the name of the member.
        is_final: whether what it fetches is fetched when the cluster has recovered.
    """

    def __init__(self, history: GroupHistory, settings: MemberSettings, name: str, *, is_final: bool = False) -> None:
        self._is_final = is_final
        self._history = history
        self._group = settings.group_id
        self._instance = settings.instance_id
        self._name = name
        self._join: int | None = None
        self._ownership: int | None = None

    def __call__(self, event: MemberEvent) -> None:
        history = self._history
        match event:
            case JoinBegan(at_ms):
                self._join = len(history.joins)
                history.joins.append(Join(self._group, self._name, at_ms))
            case JoinEnded(at_ms, reason):
                assert self._join is not None
                history.joins[self._join] = history.joins[self._join]._replace(ended_ms=at_ms, reason=reason)
            case Assigned(at_ms, generation, member_id, leader, partitions):
                self._end_ownership(at_ms)
                self._ownership = len(history.ownerships)
                history.ownerships.append(
                    Ownership(
                        self._group,
                        generation,
                        member_id,
                        leader,
                        frozenset(partitions),
                        at_ms,
                        instance=self._instance,
                    )
                )
            case Released(at_ms):
                self._end_ownership(at_ms)
            case CommitEnded():
                history.commits += (
                    Commit(
                        self._group,
                        partition,
                        event.offsets[partition],
                        OUTCOMES[outcome],
                        event.began_ms,
                        event.at_ms,
                        event.member_id,
                        event.generation,
                    )
                    for partition, outcome in event.outcomes.items()
                )
            case OffsetsFetched(began_ms, at_ms, offsets, coordinator):
                history.fetches += (
                    OffsetFetch(
                        self._group,
                        each,
                        offset,
                        began_ms,
                        at_ms,
                        coordinator=coordinator,
                        is_final=self._is_final,
                    )
                    for each, offset in offsets.items()
                )

    def _end_ownership(self, at_ms: float) -> None:
        if self._ownership is not None:
            ownerships = self._history.ownerships
            ownerships[self._ownership] = ownerships[self._ownership]._replace(until_ms=at_ms)
            self._ownership = None
