"""What members of groups ask of their coordinator: join, sync, heartbeat, leave, commit offsets, fetch them.

Mirrors `kafka.coordinator.group.GroupCoordinator`. A request that has to wait is a future, which the group's progress
resolves; it stays a member's wait if its connection is closed meanwhile, as in Kafka.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeVar

import structlog

from understudy.brokers.config.kafka_config import KafkaConfig
from understudy.brokers.coordinator.group.expirations import Expirations
from understudy.brokers.coordinator.group.group_administration import GroupAdministration
from understudy.brokers.coordinator.group.group_events import GroupEvents
from understudy.brokers.coordinator.group.group_metadata import GroupMetadata
from understudy.brokers.coordinator.group.group_metadata_manager import GroupMetadataManager
from understudy.brokers.coordinator.group.group_offsets import OffsetAndMetadata
from understudy.brokers.coordinator.group.group_state import GroupState
from understudy.brokers.coordinator.group.group_writer import offsets_partition
from understudy.brokers.coordinator.group.member_metadata import (
    JoinCallback,
    JoinGroupResult,
    JoiningMember,
    MemberMetadata,
    SyncGroupResult,
)
from understudy.brokers.coordinator.group.rebalances import Rebalances, current_join_result
from understudy.brokers.replication.replica_manager import ReplicaManager
from understudy.brokers.world import Offload
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.eventlog.clock import Clock
from understudy.foundation.wire.messages.join_group import UNKNOWN_MEMBER_ID

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.coordinator.group.GroupCoordinator")

T = TypeVar("T")

MOST_PENDING_MEMBERS: Final = 10_000
"""Maximum number of a group's ids that were given to members which have not joined with them yet; others have to
wait."""


LONGEST_STORED: Final = 32_767
"""Maximum number of bytes of a string in a record of `__consumer_offsets`; requests of flexible versions may have
more."""


class LeavingMember(NamedTuple):
    """A member that leaves, or that an operator removes: by its id, or by its instance id alone."""

    member_id: str
    group_instance_id: str | None = None
    reason: str | None = None


class FetchedOffset(NamedTuple):
    """The answer to OffsetFetch for one partition; None if nothing is committed."""

    value: OffsetAndMetadata | None
    error: Errors = Errors.NONE


class GroupCoordinator:
    """Coordinates the groups of this broker.

    Args:
        partitions: how many `__consumer_offsets` has, or is to have.
        random: the source of member ids.
        spawn: runs a coroutine as a task of the broker, under a name.

    Attributes:
        administration: what operators ask.
    """

    def __init__(
        self,
        *,
        partitions: int,
        config: Callable[[], KafkaConfig],
        replicas: ReplicaManager,
        clock: Clock,
        random: random.Random,
        events: GroupEvents,
        spawn: Callable[[Coroutine[object, object, None], str], object],
        offload: Offload,
    ) -> None:
        self._config = config
        self._random = random
        self._expirations = Expirations(clock)
        self.manager = GroupMetadataManager(
            partitions=partitions,
            config=config,
            replicas=replicas,
            clock=clock,
            events=events,
            spawn=spawn,
            offload=offload,
        )
        self.rebalances = Rebalances(self.manager, self._expirations, config=config)
        self.administration = GroupAdministration(self.manager, self.rebalances, self.error_for)
        self._is_active = True

    async def run(self) -> None:
        """End sessions, rebalances and syncs whose time is over, and remove expired offsets, until it is cancelled.

        From then on every request is answered COORDINATOR_NOT_AVAILABLE.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._expirations.run())
                tasks.create_task(self.manager.run_expiration())
        finally:
            self._is_active = False

    def elected(self, partition: int, leader_epoch: int) -> None:
        """Coordinate the groups of a partition of `__consumer_offsets` that this broker leads now (`onElection`)."""
        at = str(offsets_partition(partition))
        log.info("elected as the group coordinator", partition=at, leader_epoch=leader_epoch)
        self.manager.load(partition, leader_epoch, self.rebalances.group_loaded)

    def resigned(self, partition: int, leader_epoch: int | None) -> None:
        """Coordinate the groups of a partition no more; without an epoch it is deleted (`onResignation`)."""
        at = str(offsets_partition(partition))
        log.info("resigned as the group coordinator", partition=at, leader_epoch=leader_epoch)
        self.manager.unload(partition, leader_epoch, self.rebalances.group_unloaded)

    def error_for(self, group_id: str, *, may_be_empty: bool = False) -> Errors:
        """Return why this broker does not answer for a group; NONE if it does (`validateGroupStatus`).

        Args:
            may_be_empty: whether the empty group id is valid, as it is for clients that only store offsets.
        """
        if (not group_id and not may_be_empty) or not _is_storable(group_id):
            return Errors.INVALID_GROUP_ID
        if not self._is_active:
            return Errors.COORDINATOR_NOT_AVAILABLE
        return self.manager.status(group_id)

    # ------------------------------------------------------------------ joining

    async def join_group(self, group_id: str, joining: JoiningMember) -> JoinGroupResult:
        """Have a member join, and wait until its group begins a generation."""
        return await _answered(partial(self._join, group_id, joining))

    def _join(self, group_id: str, joining: JoiningMember, callback: JoinCallback) -> None:
        error = self.error_for(group_id)
        config = self._config()
        if error is not Errors.NONE:
            callback(JoinGroupResult(joining.member_id, error))
            return
        shortest, longest = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
        if not shortest <= joining.session_timeout_ms <= longest:
            callback(JoinGroupResult(joining.member_id, Errors.INVALID_SESSION_TIMEOUT))
            return
        too_large = sum(len(name) + len(metadata) for name, metadata in joining.protocols) > config.message_max_bytes
        if too_large or not _is_member_storable(joining):
            # It could not be stored with its group, and none of the members would get an assignment.
            callback(JoinGroupResult(joining.member_id, Errors.MESSAGE_TOO_LARGE))
            return
        is_unknown = joining.member_id == UNKNOWN_MEMBER_ID
        group = self.manager.get_or_create(group_id) if is_unknown else self.manager.get(group_id)
        if group is None:
            callback(JoinGroupResult(joining.member_id, Errors.UNKNOWN_MEMBER_ID))
            return
        if not self._has_room_for(group, joining.member_id):
            self.rebalances.refuse_member(group, joining.member_id)
            callback(JoinGroupResult(UNKNOWN_MEMBER_ID, Errors.GROUP_MAX_SIZE_REACHED))
        elif not group.supports_protocols(joining.protocol_type, joining.protocols):
            member_id = UNKNOWN_MEMBER_ID if is_unknown else joining.member_id
            callback(JoinGroupResult(member_id, Errors.INCONSISTENT_GROUP_PROTOCOL))
        elif is_unknown:
            self._join_new(group, joining, callback)
        else:
            self._join_again(group, joining, callback)
        self.rebalances.complete_join_if_ready(group)
        self.manager.drop_if_unused(group)

    def _has_room_for(self, group: GroupMetadata, member_id: str) -> bool:
        """Whether a member may join, by `group.max.size` (`acceptJoiningMember`).

        While members join again, those that have are counted: the group may be too large already, and then the last
        ones have no room.
        """
        limit = self._config().group_max_size
        member = group.members.get(member_id)
        if group.state is GroupState.PREPARING_REBALANCE:
            return (member is not None and member.is_awaiting_join) or group.awaiting_join < limit
        if group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            return member is not None or len(group.members) < limit
        return True

    def _join_new(self, group: GroupMetadata, joining: JoiningMember, callback: JoinCallback) -> None:
        instance_id = joining.group_instance_id
        new_id = self._generate_member_id(joining.client_id if instance_id is None else instance_id)
        known = None if instance_id is None else group.static_members.get(instance_id)
        about = {"group": group.group_id, "state": group.state.value, "member": new_id}
        if known is not None:
            log.info(
                "static member joins again; its former id is replaced", **about, instance=instance_id, former=known
            )
            self.rebalances.replace_static_member(group, group.members[known], new_id, joining, callback)
        elif joining.requires_known_id and instance_id is None:
            if len(group.pending_members) >= MOST_PENDING_MEMBERS:
                log.warning("too many members have not joined with their ids yet", group=group.group_id)
                callback(JoinGroupResult(UNKNOWN_MEMBER_ID, Errors.COORDINATOR_LOAD_IN_PROGRESS))
                return
            log.info("dynamic member with unknown member id joins; it is to rejoin with its new id", **about)
            self.rebalances.add_pending(group, new_id, joining.session_timeout_ms)
            callback(JoinGroupResult(new_id, Errors.MEMBER_ID_REQUIRED))
        else:
            log.info("member with unknown member id joins", **about, instance=instance_id)
            self._add(group, new_id, joining, callback)

    def _join_again(self, group: GroupMetadata, joining: JoiningMember, callback: JoinCallback) -> None:
        member_id = joining.member_id
        if member_id in group.pending_members and joining.group_instance_id is None:
            self._add(group, member_id, joining, callback)
            return
        error = self._member_error(group, member_id, joining.group_instance_id, "join-group")
        if error is not Errors.NONE:
            callback(JoinGroupResult(member_id, error))
            return
        member = group.members[member_id]
        is_same = member.supported_protocols == joining.protocols
        if group.state is GroupState.STABLE and group.is_leader(member_id):
            # The leader may have seen what changes the assignment and no metadata, such as new partitions.
            is_same = False
        if is_same and group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            # Perhaps it did not get the answer to its JoinGroup.
            callback(current_join_result(group, member_id))
            return
        reason = f"Member {member_id} joining during {group.state.value}; client reason: {joining.reason}"
        self.rebalances.update_member(group, member, joining, callback, reason=reason)

    def _add(self, group: GroupMetadata, member_id: str, joining: JoiningMember, callback: JoinCallback) -> None:
        member = MemberMetadata(
            member_id,
            group_instance_id=joining.group_instance_id,
            client_id=joining.client_id,
            client_host=joining.client_host,
            rebalance_timeout_ms=joining.rebalance_timeout_ms,
            session_timeout_ms=joining.session_timeout_ms,
            protocol_type=joining.protocol_type,
            supported_protocols=joining.protocols,
        )
        self.rebalances.add_member(group, member, callback, client_reason=joining.reason)

    def _generate_member_id(self, name: str) -> str:
        return f"{name}-{uuid.UUID(int=self._random.getrandbits(128), version=4)}"

    def _member_error(
        self, group: GroupMetadata, member_id: str, group_instance_id: str | None, operation: str
    ) -> Errors:
        """Return why a request does not come from a member; NONE if it does (`validateCurrentMember`)."""
        if group_instance_id is not None:
            current = group.static_members.get(group_instance_id)
            if current is None:
                return Errors.UNKNOWN_MEMBER_ID
            if current != member_id:
                log.info(
                    "static member is fenced",
                    group=group.group_id,
                    member=member_id,
                    instance=group_instance_id,
                    current_member=current,
                    operation=operation,
                )
                return Errors.FENCED_INSTANCE_ID
        return Errors.NONE if member_id in group.members else Errors.UNKNOWN_MEMBER_ID

    # ------------------------------------------------------------------ syncing

    async def sync_group(
        self,
        group_id: str,
        *,
        member_id: str,
        group_instance_id: str | None,
        generation_id: int,
        protocol_type: str | None,
        protocol_name: str | None,
        assignment: Mapping[str, bytes],
    ) -> SyncGroupResult:
        """Return a member's assignment, when the leader has sent it.

        Args:
            assignment: by member id, from the leader.
        """
        error = self.error_for(group_id)
        if error is Errors.COORDINATOR_LOAD_IN_PROGRESS:
            # The rebalance is lost with the former coordinator, and clients before 2.3 do not expect that error here.
            return SyncGroupResult(Errors.REBALANCE_IN_PROGRESS)
        if error is not Errors.NONE:
            return SyncGroupResult(error)
        group = self.manager.get(group_id)
        if group is None:
            return SyncGroupResult(Errors.UNKNOWN_MEMBER_ID)
        error = self._generation_error(group, member_id, group_instance_id, generation_id, "sync-group")
        if error is not Errors.NONE:
            return SyncGroupResult(error)
        if protocol_type not in (None, group.protocol_type) or protocol_name not in (None, group.protocol_name):
            return SyncGroupResult(Errors.INCONSISTENT_GROUP_PROTOCOL)
        member = group.members[member_id]
        if group.state is GroupState.PREPARING_REBALANCE:
            return SyncGroupResult(Errors.REBALANCE_IN_PROGRESS)
        if group.state is GroupState.COMPLETING_REBALANCE:
            return await _answered(partial(self.rebalances.sync, group, member, assignment))
        self.rebalances.has_synced(group, member)
        self.rebalances.heartbeat(group, member)
        return SyncGroupResult(Errors.NONE, group.protocol_type, group.protocol_name, member.assignment)

    def _generation_error(
        self, group: GroupMetadata, member_id: str, group_instance_id: str | None, generation_id: int, operation: str
    ) -> Errors:
        error = self._member_error(group, member_id, group_instance_id, operation)
        if error is Errors.NONE and generation_id != group.generation_id:
            return Errors.ILLEGAL_GENERATION
        return error

    # ------------------------------------------------------------------ heartbeats, leaving

    def heartbeat(self, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int) -> Errors:
        """Renew a member's session; REBALANCE_IN_PROGRESS has it join again."""
        error = self.error_for(group_id)
        if error is Errors.COORDINATOR_LOAD_IN_PROGRESS:
            return Errors.NONE
        group = self.manager.get(group_id)
        if error is not Errors.NONE or group is None:
            return Errors.UNKNOWN_MEMBER_ID if error is Errors.NONE else error
        error = self._generation_error(group, member_id, group_instance_id, generation_id, "heartbeat")
        if error is not Errors.NONE:
            return error
        self.rebalances.heartbeat(group, group.members[member_id])
        return Errors.REBALANCE_IN_PROGRESS if group.state is GroupState.PREPARING_REBALANCE else Errors.NONE

    def leave_group(self, group_id: str, leaving: Sequence[LeavingMember]) -> tuple[Errors, tuple[Errors, ...]]:
        """Remove members; return the error of the request and, without one, the error of each member."""
        error = self.error_for(group_id)
        if error is not Errors.NONE:
            return error, ()
        group = self.manager.get(group_id)
        if group is None:
            return Errors.NONE, tuple(Errors.UNKNOWN_MEMBER_ID for _ in leaving)
        errors = tuple([self._leave(group, member) for member in leaving])
        self.manager.drop_if_unused(group)
        return Errors.NONE, errors

    def _leave(self, group: GroupMetadata, leaving: LeavingMember) -> Errors:
        member_id = leaving.member_id
        if member_id == UNKNOWN_MEMBER_ID:
            # An operator removes a static member, whose present id is not known outside.
            current = group.static_members.get(leaving.group_instance_id or "")
            if current is None:
                return Errors.UNKNOWN_MEMBER_ID
            member_id = current
        elif member_id in group.pending_members:
            self.rebalances.remove_pending(group, member_id)
            log.info("pending member has left group", member=member_id, group=group.group_id)
            return Errors.NONE
        else:
            error = self._member_error(group, member_id, leaving.group_instance_id, "leave-group")
            if error is not Errors.NONE:
                return error
        reason = leaving.reason or "not provided"
        why = f"Removing member {member_id} on LeaveGroup; client reason: {reason}"
        self.rebalances.remove_member(group, group.members[member_id], why)
        log.info("member has left group", member=member_id, group=group.group_id, client_reason=reason)
        return Errors.NONE

    # ------------------------------------------------------------------ offsets

    async def commit_offsets(
        self,
        group_id: str,
        *,
        member_id: str,
        group_instance_id: str | None,
        generation_id: int,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
    ) -> dict[TopicPartition, Errors]:
        """Commit offsets of a member, or of a client without a group; return the error of each."""
        error = self.error_for(group_id, may_be_empty=True)
        if error is not Errors.NONE:
            return dict.fromkeys(offsets, error)
        group = self.manager.get(group_id)
        if group is None:
            if generation_id >= 0:
                return dict.fromkeys(offsets, Errors.ILLEGAL_GENERATION)
            group = self.manager.get_or_create(group_id)
        error = self._commit_error(group, member_id, group_instance_id, generation_id)
        if error is not Errors.NONE:
            return dict.fromkeys(offsets, error)
        member = group.members.get(member_id)
        if member is not None:
            self.rebalances.heartbeat(group, member)
        longest = self._config().offset_metadata_max_bytes
        accepted = {
            partition: each
            for partition, each in offsets.items()
            if len(each.metadata) <= longest and _is_storable(each.metadata)
        }
        if accepted:
            stored = await self.manager.store_offsets(group, accepted)
        else:
            stored = Errors.NONE
            self.manager.drop_if_unused(group)
        return {
            partition: stored if partition in accepted else Errors.OFFSET_METADATA_TOO_LARGE for partition in offsets
        }

    def _commit_error(
        self, group: GroupMetadata, member_id: str, group_instance_id: str | None, generation_id: int
    ) -> Errors:
        """Return why a commit is refused; NONE if it is not (`validateOffsetCommit`)."""
        if generation_id < 0 and group.state is GroupState.EMPTY:
            return Errors.NONE
        if generation_id < 0 and member_id == UNKNOWN_MEMBER_ID and group_instance_id is None:
            # Only members may commit in a group that has members.
            return Errors.UNKNOWN_MEMBER_ID
        error = self._generation_error(group, member_id, group_instance_id, generation_id, "offset-commit")
        if error is Errors.NONE and group.state is GroupState.COMPLETING_REBALANCE:
            return Errors.REBALANCE_IN_PROGRESS
        return error

    def fetch_offsets(
        self, group_id: str, partitions: Sequence[TopicPartition] | None, *, require_stable: bool
    ) -> tuple[Errors, dict[TopicPartition, FetchedOffset]]:
        """Return the committed offsets of a group, whatever its state; the error of the request, or each partition's.

        Args:
            partitions: None for all that have an offset.
            require_stable: refuse partitions of which a commit is not replicated yet.
        """
        error = self.error_for(group_id, may_be_empty=True)
        if error is not Errors.NONE:
            return error, {}
        group = self.manager.get(group_id)
        if group is None:
            return Errors.NONE, {partition: FetchedOffset(None) for partition in partitions or ()}
        offsets = group.offsets
        return Errors.NONE, {
            partition: (
                FetchedOffset(None, Errors.UNSTABLE_OFFSET_COMMIT)
                if require_stable and offsets.is_pending(partition)
                else FetchedOffset(offsets.get(partition))
            )
            for partition in (offsets if partitions is None else partitions)
        }


def _is_storable(text: str) -> bool:
    return 4 * len(text) <= LONGEST_STORED or len(text.encode()) <= LONGEST_STORED


def _is_member_storable(joining: JoiningMember) -> bool:
    """Whether each string of a member fits into the record of its group, its id with a UUID included."""
    names = (name for name, _ in joining.protocols)
    longest_id = f"{joining.group_instance_id or joining.client_id}-{uuid.UUID(int=0)}"
    return all(map(_is_storable, (joining.client_id, joining.protocol_type, longest_id, *names)))


async def _answered(ask: Callable[[Callable[[T], None]], None]) -> T:
    """Ask with a callback, and wait for its result."""
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    ask(partial(_resolve, future))
    return await future


def _resolve(future: asyncio.Future[T], result: T) -> None:
    # It is cancelled if the connection was closed meanwhile.
    if not future.done():
        future.set_result(result)
