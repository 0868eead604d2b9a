"""Leads a group from one generation to the next: joins, the leader's assignment, members that fail.

Mirrors the second half of `kafka.coordinator.group.GroupCoordinator`, with `DelayedJoin`, `InitialDelayedJoin`,
`DelayedSync` and `DelayedHeartbeat`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import structlog

from understudy.brokers.config.kafka_config import KafkaConfig
from understudy.brokers.coordinator.group.expirations import Expirations
from understudy.brokers.coordinator.group.group_metadata import GroupMetadata
from understudy.brokers.coordinator.group.group_metadata_manager import GroupMetadataManager
from understudy.brokers.coordinator.group.group_state import GroupState
from understudy.brokers.coordinator.group.group_writer import offsets_partition
from understudy.brokers.coordinator.group.member_metadata import (
    JoinCallback,
    JoinGroupResult,
    JoiningMember,
    MemberMetadata,
    Protocols,
    SyncCallback,
    SyncGroupResult,
)
from understudy.brokers.coordinator.group.timer import TimerTask
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.operator_lines import some
from understudy.foundation.wire.messages.join_group import UNKNOWN_MEMBER_ID

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.coordinator.group.GroupCoordinator")

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60_000
"""Time that the JoinGroup of a new member waits: a client that is gone cannot be noticed before."""


class _DelayedJoin(NamedTuple):
    """The end of a group's wait for its members.

    Attributes:
        is_initial: the first rebalance of an empty group, which waits for its time though all members are there.
    """

    task: TimerTask
    is_initial: bool


class Rebalances:
    """Rebalances the groups of a broker."""

    def __init__(
        self, manager: GroupMetadataManager, expirations: Expirations, *, config: Callable[[], KafkaConfig]
    ) -> None:
        self._manager = manager
        self._expirations = expirations
        self._config = config
        self._delayed_joins: dict[str, _DelayedJoin] = {}
        self._delayed_syncs: dict[str, TimerTask] = {}

    # ------------------------------------------------------------------ sessions

    def heartbeat(self, group: GroupMetadata, member: MemberMetadata) -> None:
        """Begin a member's session anew (`completeAndScheduleNextHeartbeatExpiration`)."""
        self._expect(group, member, member.session_timeout_ms)

    def _expect(self, group: GroupMetadata, member: MemberMetadata, timeout_ms: float) -> None:
        session = self._expirations.postpone(member.session, timeout_ms)
        if session is None:
            session = self._expirations.after(timeout_ms, partial(self._session_expired, group, member))
        member.session = session

    def _session_expired(self, group: GroupMetadata, member: MemberMetadata) -> None:
        if group.state is GroupState.DEAD or group.members.get(member.member_id) is not member:
            return
        if not member.is_expected_to_heartbeat:
            return
        log.info("member has failed, removing it from the group", member=member.member_id, group=group.group_id)
        self.remove_member(group, member, f"removing member {member.member_id} on heartbeat expiration")

    def add_pending(self, group: GroupMetadata, member_id: str, session_timeout_ms: int) -> None:
        """Expect a member to join with the id it was given (KIP-394)."""
        group.pending_members[member_id] = self._expirations.after(
            session_timeout_ms, partial(self._pending_expired, group, member_id)
        )

    def remove_pending(self, group: GroupMetadata, member_id: str) -> None:
        """Expect a member no more that was given an id; the others need not wait for it."""
        self._expirations.cancel(group.pending_members.pop(member_id, None))
        self.complete_join_if_ready(group)

    def _pending_expired(self, group: GroupMetadata, member_id: str) -> None:
        if group.pending_members.pop(member_id, None) is None or group.state is GroupState.DEAD:
            return
        log.info("pending member has been removed after session timeout", member=member_id, group=group.group_id)
        self.complete_join_if_ready(group)
        self._manager.drop_if_unused(group)

    # ------------------------------------------------------------------ members

    def add_member(
        self, group: GroupMetadata, member: MemberMetadata, callback: JoinCallback, *, client_reason: str
    ) -> None:
        """Add a member, and rebalance (`addMemberAndRebalance`)."""
        member.is_new = True
        if group.state is GroupState.PREPARING_REBALANCE and group.generation_id == 0:
            group.has_new_member = True
        self._expirations.cancel(group.pending_members.pop(member.member_id, None))
        group.add(member, callback)
        self._expect(group, member, NEW_MEMBER_JOIN_TIMEOUT_MS)
        self.rebalance_if_possible(
            group,
            f"Adding new member {member.member_id} with group instance id {member.group_instance_id}; "
            f"client reason: {client_reason}",
        )

    def update_member(
        self,
        group: GroupMetadata,
        member: MemberMetadata,
        joining: JoiningMember,
        callback: JoinCallback,
        *,
        reason: str,
    ) -> None:
        """Take over what a member has sent when it joined again, and rebalance (`updateMemberAndRebalance`)."""
        self._take_over(group, member, joining, callback)
        self.rebalance_if_possible(group, reason)

    def _take_over(
        self, group: GroupMetadata, member: MemberMetadata, joining: JoiningMember, callback: JoinCallback
    ) -> None:
        group.update_member(
            member,
            joining.protocols,
            rebalance_timeout_ms=joining.rebalance_timeout_ms,
            session_timeout_ms=joining.session_timeout_ms,
            callback=callback,
        )

    def remove_member(self, group: GroupMetadata, member: MemberMetadata, reason: str) -> None:
        """Remove a member, and rebalance (`removeMemberAndUpdateGroup`)."""
        group.answer_join(member, JoinGroupResult(UNKNOWN_MEMBER_ID, Errors.UNKNOWN_MEMBER_ID))
        self._forget_member(group, member)
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self.rebalance_if_possible(group, reason)
        else:
            self.complete_join_if_ready(group)

    def _forget_member(self, group: GroupMetadata, member: MemberMetadata) -> None:
        group.remove(member.member_id)
        group.answer_sync(member, SyncGroupResult(Errors.UNKNOWN_MEMBER_ID))
        self._expirations.cancel(member.session)

    def refuse_member(self, group: GroupMetadata, member_id: str) -> None:
        """Remove a member for which the group has no room any more (`group.max.size`)."""
        member = group.members.get(member_id)
        if member is not None:
            self._forget_member(group, member)
        self._expirations.cancel(group.pending_members.pop(member_id, None))
        self.complete_join_if_ready(group)

    # ------------------------------------------------------------------ joining

    def rebalance_if_possible(self, group: GroupMetadata, reason: str) -> None:
        """Rebalance, unless that is under way (`maybePrepareRebalance`)."""
        if group.can_rebalance:
            self.prepare_rebalance(group, reason)

    def prepare_rebalance(self, group: GroupMetadata, reason: str) -> None:
        """Have all members join again."""
        if group.state is GroupState.COMPLETING_REBALANCE:
            self._propagate(group, Errors.REBALANCE_IN_PROGRESS)
        self._end_sync_wait(group)
        is_initial = group.state is GroupState.EMPTY
        log.info(
            "preparing to rebalance group",
            group=group.group_id,
            state=group.state.value,
            generation=group.generation_id,
            partition=str(offsets_partition(group.partition)),
            why=reason,
        )
        self._enter(group, GroupState.PREPARING_REBALANCE, reason)
        if is_initial:
            delay_ms = self._config().group_initial_rebalance_delay_ms
            self._delay_initial_join(group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        else:
            self._delay_join(group)

    def complete_join_if_ready(self, group: GroupMetadata) -> None:
        """End the wait for members if all have joined (`tryCompleteJoin`)."""
        delayed = self._delayed_joins.get(group.group_id)
        if group.state is not GroupState.PREPARING_REBALANCE or delayed is None or delayed.is_initial:
            return
        if group.has_all_members_joined:
            self._complete_join(group)

    def _delay_join(self, group: GroupMetadata) -> None:
        task = self._expirations.after(group.rebalance_timeout_ms, partial(self._complete_join, group))
        self._delayed_joins[group.group_id] = _DelayedJoin(task, is_initial=False)
        self.complete_join_if_ready(group)

    def _delay_initial_join(self, group: GroupMetadata, delay_ms: int, remaining_ms: int) -> None:
        task = self._expirations.after(delay_ms, partial(self._initial_join_due, group, delay_ms, remaining_ms))
        self._delayed_joins[group.group_id] = _DelayedJoin(task, is_initial=True)

    def _initial_join_due(self, group: GroupMetadata, delay_ms: int, remaining_ms: int) -> None:
        if group.state is GroupState.PREPARING_REBALANCE and group.has_new_member and remaining_ms:
            group.has_new_member = False
            delay = min(self._config().group_initial_rebalance_delay_ms, remaining_ms)
            self._delay_initial_join(group, delay, max(remaining_ms - delay_ms, 0))
        else:
            self._complete_join(group)

    def _complete_join(self, group: GroupMetadata) -> None:
        """Begin the next generation with the members that have joined (`onCompleteJoin`)."""
        delayed = self._delayed_joins.pop(group.group_id, None)
        if delayed is not None:
            self._expirations.cancel(delayed.task)
        if group.state is not GroupState.PREPARING_REBALANCE:
            return
        late = [member for member in group.not_yet_rejoined if not member.is_static]
        for member in late:
            self._forget_member(group, member)
        if late:
            log.info(
                "group removed dynamic members who have not joined",
                group=group.group_id,
                count=len(late),
                member_ids=list(some(member.member_id for member in late)),
            )
        if not group.elect_joined_leader() and group.members:
            log.error("group could not complete rebalance because no members rejoined", group=group.group_id)
            self._delay_join(group)
            return
        group.init_next_generation(now_ms=self._manager.now_ms())
        reason = "all members have joined" if group.members else "no members are left"
        self._manager.events.transition(group, GroupState.PREPARING_REBALANCE, reason)
        if group.members:
            self._answer_joins(group)
        else:
            self._store_empty(group)

    def _answer_joins(self, group: GroupMetadata) -> None:
        log.info(
            "stabilized group",
            group=group.group_id,
            generation=group.generation_id,
            partition=str(offsets_partition(group.partition)),
            members=len(group.members),
        )
        if group.is_consumer_group and group.subscribed_topics is None:
            log.warning("failed to parse the subscriptions of a consumer group", group=group.group_id)
        for member in group.members.values():
            group.answer_join(member, current_join_result(group, member.member_id))
            self.heartbeat(group, member)
            member.is_new = False
            group.pending_sync_members.add(member.member_id)
        self._delayed_syncs[group.group_id] = self._expirations.after(
            group.rebalance_timeout_ms, partial(self._sync_expired, group, group.generation_id)
        )

    def _store_empty(self, group: GroupMetadata) -> None:
        at = str(offsets_partition(group.partition))
        log.info("group is now empty", group=group.group_id, generation=group.generation_id, partition=at)
        self._manager.store_group(group, {}, partial(self._stored_empty, group))

    def _stored_empty(self, group: GroupMetadata, error: Errors) -> None:
        if error is not Errors.NONE:
            # The former generation counts again if the coordinator moves; its members will fail there.
            log.warning("failed to write empty metadata for group", group=group.group_id, error=error.name)

    # ------------------------------------------------------------------ syncing

    def sync(
        self, group: GroupMetadata, member: MemberMetadata, assignment: Mapping[str, bytes], callback: SyncCallback
    ) -> None:
        """Have a member wait for its assignment; the leader brings the assignments of all members."""
        superseded, member.awaiting_sync = member.awaiting_sync, callback
        if superseded is not None:
            superseded(SyncGroupResult(Errors.REBALANCE_IN_PROGRESS))
        self.has_synced(group, member)
        if not group.is_leader(member.member_id):
            return
        log.info(
            "assignment received from leader",
            member=member.member_id,
            group=group.group_id,
            generation=group.generation_id,
            members=len(group.members),
            static_members=len(group.static_members),
        )
        missing = [member_id for member_id in group.members if member_id not in assignment]
        if missing:
            log.warning(
                "setting empty assignments for members",
                group=group.group_id,
                generation=group.generation_id,
                count=len(missing),
                member_ids=list(some(missing)),
            )
        whole = {member_id: assignment.get(member_id, b"") for member_id in group.members}
        self._manager.store_group(group, whole, partial(self._stored_assignment, group, group.generation_id, whole))
        self._manager.meters.rebalances.record()

    def _stored_assignment(
        self, group: GroupMetadata, generation: int, assignment: Mapping[str, bytes], error: Errors
    ) -> None:
        if group.state is not GroupState.COMPLETING_REBALANCE or group.generation_id != generation:
            return
        if error is not Errors.NONE:
            self._propagate(group, error)
            self.rebalance_if_possible(group, f"Error {error.name} when storing group assignment during SyncGroup")
            return
        for member in group.members.values():
            member.assignment = assignment.get(member.member_id, b"")
        self._enter(group, GroupState.STABLE, "the leader's assignment is stored")
        self._manager.events.assigned(group)
        self._propagate(group, Errors.NONE)

    def has_synced(self, group: GroupMetadata, member: MemberMetadata) -> None:
        """Note that a member has sent SyncGroup in this generation."""
        group.pending_sync_members.discard(member.member_id)
        if not group.pending_sync_members:
            self._end_sync_wait(group)

    def _propagate(self, group: GroupMetadata, error: Errors) -> None:
        """Answer every SyncGroup that waits; with an error no member has an assignment."""
        for member in group.members.values():
            if error is Errors.NONE:
                result = SyncGroupResult(error, group.protocol_type, group.protocol_name, member.assignment)
            else:
                member.assignment = b""
                result = SyncGroupResult(error)
            if group.answer_sync(member, result):
                self.heartbeat(group, member)

    def _end_sync_wait(self, group: GroupMetadata) -> None:
        group.pending_sync_members.clear()
        self._expirations.cancel(self._delayed_syncs.pop(group.group_id, None))

    def _sync_expired(self, group: GroupMetadata, generation: int) -> None:
        """Remove the members that have joined and never sent SyncGroup (`onExpirePendingSync`)."""
        is_waiting = group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)
        if not is_waiting or group.generation_id != generation or not group.pending_sync_members:
            return
        missing = sorted(group.pending_sync_members)
        for member_id in missing:
            # A static member that has started again since has another id, and stays.
            if member := group.members.get(member_id):
                self._forget_member(group, member)
        log.debug(
            "group removed members who have not sent their sync request", group=group.group_id, member_ids=missing
        )
        self.prepare_rebalance(group, f"Removing {len(missing)} members on pending sync request expiration")

    # ------------------------------------------------------------------ static members

    def replace_static_member(
        self,
        group: GroupMetadata,
        known: MemberMetadata,
        new_id: str,
        joining: JoiningMember,
        callback: JoinCallback,
    ) -> None:
        """Let a static member whose process has started again take its former place.

        In a Stable group whose protocol stays the same nothing else changes (`updateStaticMemberAndRebalance`).
        """
        assert known.group_instance_id is not None, "a static member has an instance id"
        before = _StaticMember(
            known.member_id,
            group.leader_id,
            known.supported_protocols,
            known.rebalance_timeout_ms,
            known.session_timeout_ms,
        )
        member = group.replace_static_member(known.group_instance_id, known.member_id, new_id)
        self.heartbeat(group, member)
        self._take_over(group, member, joining, callback)
        if group.state is GroupState.STABLE:
            if group.select_protocol() == group.protocol_name:
                log.info("static member which joins during Stable stage will not trigger rebalance", member=new_id)
                assignment = {each.member_id: each.assignment for each in group.members.values()}
                about = (group, member, new_id, group.generation_id, before, joining.can_skip_assignment)
                self._manager.store_group(group, assignment, partial(self._stored_static_member, *about))
            else:
                self.rebalance_if_possible(
                    group,
                    f"Group's selectedProtocol will change because static member {new_id} joined with change of "
                    f"protocol; client reason: {joining.reason}",
                )
        elif group.state is GroupState.COMPLETING_REBALANCE:
            # The leader was given the old id: its assignment would miss the new one.
            self.prepare_rebalance(
                group, f"Updating metadata for static member {new_id}; client reason: {joining.reason}"
            )

    def _stored_static_member(
        self,
        group: GroupMetadata,
        member: MemberMetadata,
        new_id: str,
        generation: int,
        before: _StaticMember,
        can_skip_assignment: bool,
        error: Errors,
    ) -> None:
        is_same = group.members.get(new_id) is member and group.generation_id == generation
        if not is_same or group.state is not GroupState.STABLE:
            return  # whatever has happened since answers the member
        result = current_join_result(group, new_id)
        if error is not Errors.NONE:
            log.warning("failed to persist metadata for group", group=group.group_id, error=error.name)
            group.answer_join(
                member,
                result._replace(member_id=UNKNOWN_MEMBER_ID, members=(), leader_id=before.leader_id, error=error),
            )
            self._revert_static_member(group, member, before)
        elif can_skip_assignment:
            group.answer_join(member, result._replace(skip_assignment=group.is_leader(new_id)))
        else:
            # Older members would compute an assignment that a Stable group does not take: none is made the leader.
            group.answer_join(member, result._replace(members=(), leader_id=before.leader_id))

    def _revert_static_member(self, group: GroupMetadata, member: MemberMetadata, before: _StaticMember) -> None:
        assert member.group_instance_id is not None, "a static member has an instance id"
        group.update_member(
            member,
            before.supported_protocols,
            rebalance_timeout_ms=before.rebalance_timeout_ms,
            session_timeout_ms=before.session_timeout_ms,
            callback=None,
        )
        self.heartbeat(group, group.replace_static_member(member.group_instance_id, member.member_id, before.member_id))

    # ------------------------------------------------------------------ loading and unloading

    def group_loaded(self, group: GroupMetadata) -> None:
        """Begin the sessions of a group that was read from the log (`onGroupLoaded`)."""
        if len(group.members) > self._config().group_max_size:
            self.prepare_rebalance(group, "Freshly-loaded group is over capacity")
        for member in group.members.values():
            self.heartbeat(group, member)

    def group_unloaded(self, group: GroupMetadata) -> None:
        """Send the members of a group to its next coordinator (`onGroupUnloaded`)."""
        self.end(group, "this broker leads the partition no more")
        for member in group.members.values():
            group.answer_join(member, JoinGroupResult(member.member_id, Errors.NOT_COORDINATOR))
            group.answer_sync(member, SyncGroupResult(Errors.NOT_COORDINATOR))

    def end(self, group: GroupMetadata, reason: str) -> None:
        """Make a group Dead, and end its waits."""
        self._enter(group, GroupState.DEAD, reason)
        delayed = self._delayed_joins.pop(group.group_id, None)
        if delayed is not None:
            self._expirations.cancel(delayed.task)
        self._end_sync_wait(group)
        for task in group.pending_members.values():
            self._expirations.cancel(task)
        for member in group.members.values():
            self._expirations.cancel(member.session)

    def _enter(self, group: GroupMetadata, state: GroupState, reason: str) -> None:
        source = group.state
        group.transition_to(state, now_ms=self._manager.now_ms())
        self._manager.events.transition(group, source, reason)


class _StaticMember(NamedTuple):
    """A static member before its process started again, and the group's leader at that time."""

    member_id: str
    leader_id: str | None
    supported_protocols: Protocols
    rebalance_timeout_ms: int
    session_timeout_ms: int


def current_join_result(group: GroupMetadata, member_id: str) -> JoinGroupResult:
    """Return the answer to a member that has joined the present generation; the leader is given all members."""
    return JoinGroupResult(
        member_id,
        members=group.member_metadata() if group.is_leader(member_id) else (),
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader_id=group.leader_id,
    )
