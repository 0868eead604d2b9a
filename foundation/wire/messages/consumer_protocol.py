"""What consumers exchange inside JoinGroup and SyncGroup: the subscription of a member, and its assignment.

Versions of the subscription: 1 the partitions owned so far (KIP-429); 2 their generation (KIP-792); 3 the rack
(KIP-881). The assignment is the same in all.
"""

from __future__ import annotations

from typing import Annotated, Final

from understudy.foundation.wire.schema import Message, ignorable, int32, since

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
"""The protocol type of groups whose members are consumers."""


class ConsumerProtocolSubscription(Message, frozen=True, kw_only=True):
    topics: tuple[str, ...] = ()
    user_data: bytes | None = None
    owned_partitions: Annotated[tuple[OwnedTopic, ...], since(1), ignorable] = ()
    generation_id: Annotated[int32, since(2), ignorable] = -1
    rack_id: Annotated[str | None, since(3), ignorable] = None


class OwnedTopic(Message, frozen=True, kw_only=True):
    topic: str = ""
    partitions: tuple[int32, ...] = ()


class ConsumerProtocolAssignment(Message, frozen=True, kw_only=True):
    assigned_partitions: tuple[AssignedTopic, ...] = ()
    user_data: bytes | None = None


class AssignedTopic(Message, frozen=True, kw_only=True):
    topic: str = ""
    partitions: tuple[int32, ...] = ()
