"""A member of a group, and the answers it may wait for. Mirrors `kafka.coordinator.group.MemberMetadata`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple, TypeAlias

from understudy.brokers.coordinator.group.timer import TimerTask
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.wire.messages.join_group import UNKNOWN_GENERATION_ID, JoinGroupResponseMember

Protocols: TypeAlias = tuple[tuple[str, bytes], ...]
"""(name, metadata) of the protocols that a member supports, in the order of its preference."""


class JoiningMember(NamedTuple):
    """A JoinGroup request.

    Attributes:
        member_id: empty if it does not have one yet.
        requires_known_id: whether a new member joins twice, the second time with the id it was given (KIP-394).
        can_skip_assignment: whether the answer may make it the leader without an assignment to compute (KIP-814).
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    reason: str
    requires_known_id: bool
    can_skip_assignment: bool


class JoinGroupResult(NamedTuple):
    """How a JoinGroup ends. Mirrors its Kafka namesake."""

    member_id: str
    error: Errors = Errors.NONE
    members: tuple[JoinGroupResponseMember, ...] = ()
    """All members, for the leader only."""
    generation_id: int = UNKNOWN_GENERATION_ID
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str | None = ""
    skip_assignment: bool = False


class SyncGroupResult(NamedTuple):
    """How a SyncGroup ends. Mirrors its Kafka namesake."""

    error: Errors
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


JoinCallback: TypeAlias = Callable[[JoinGroupResult], None]
SyncCallback: TypeAlias = Callable[[SyncGroupResult], None]


class MemberMetadata:
    """A member of a group.

    Attributes:
        group_instance_id: the id of a static member, which keeps its place when its process starts again (KIP-345).
        client_host: the address it joined from, as Java writes it: `/10.0.0.1`.
        supported_protocols: the protocols in its last JoinGroup.
        assignment: what the leader assigned to it in this generation.
        is_new: whether it has joined and waits for its first generation; it cannot send heartbeats yet.
        awaiting_join, awaiting_sync: answers the request that waits; None if none does.
        session: the timer after which it counts as failed; None before its first one.
    """

    __slots__ = (
        "assignment",
        "awaiting_join",
        "awaiting_sync",
        "client_host",
        "client_id",
        "group_instance_id",
        "is_new",
        "member_id",
        "protocol_type",
        "rebalance_timeout_ms",
        "session",
        "session_timeout_ms",
        "supported_protocols",
    )

    def __init__(
        self,
        member_id: str,
        *,
        group_instance_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocol_type: str,
        supported_protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocol_type = protocol_type
        self.supported_protocols = supported_protocols
        self.assignment = assignment
        self.is_new = False
        self.awaiting_join: JoinCallback | None = None
        self.awaiting_sync: SyncCallback | None = None
        self.session: TimerTask | None = None

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def is_awaiting_join(self) -> bool:
        return self.awaiting_join is not None

    @property
    def is_expected_to_heartbeat(self) -> bool:
        """Whether silence shows that it has failed: it waits for no answer, or it is new and waits for too long."""
        return self.is_new or (self.awaiting_join is None and self.awaiting_sync is None)

    def metadata(self, protocol: str | None) -> bytes:
        """Return its metadata of one of its protocols.

        Raises:
            KeyError: it does not support `protocol`.
        """
        for name, metadata in self.supported_protocols:
            if name == protocol:
                return metadata
        raise KeyError(f"member {self.member_id} does not support protocol {protocol}")

    def vote(self, candidates: Collection[str]) -> str:
        """Return the one of `candidates` that it prefers.

        Raises:
            KeyError: it supports none of them.
        """
        for name, _ in self.supported_protocols:
            if name in candidates:
                return name
        raise KeyError(f"member {self.member_id} supports none of the protocols {sorted(candidates)}")
