"""What record types are made of: their base class, and partitions as arrays."""

from __future__ import annotations

import msgspec


class RecordPayload(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The base class of every record type: immutable, with named fields."""


class Leadership(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The leader and ISR of one partition, written as an array of eight values."""

    topic: str
    """The topic's name."""
    partition: int
    """The partition's number in the topic, from 0."""
    leader: int
    """Broker id of the leader; −1 while there is none, −2 while the topic is being deleted."""
    leader_epoch: int
    """Grows with every change of the leader or of the assignment."""
    isr: tuple[int, ...]
    """Broker ids of the in-sync replicas."""
    partition_epoch: int
    """The version of the partition's state znode in ZooKeeper; in a KRaft cluster the partition's own epoch."""
    controller_epoch: int
    """Epoch of the controller that wrote this state; in a KRaft cluster the epoch of the quorum."""
    leader_recovery_state: int = 0
    """0 RECOVERED; 1 RECOVERING, after an unclean election (KIP-704)."""


class Transition(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One partition or replica that changed its state, written as an array of four values."""

    topic: str
    """The topic's name."""
    partition: int
    """The partition's number in the topic, from 0."""
    replica: int
    """Broker id of the replica; −1 if the state is the partition's."""
    source: str
    """Kafka's name of the state that was left, for example `NewPartition`; the record names the state entered."""


class Refused(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One partition for which something failed, written as an array of three values."""

    topic: str
    """The topic's name."""
    partition: int
    """The partition's number in the topic, from 0."""
    error: str
    """The name of Kafka's error or of the ZooKeeper failure, or the reason in words."""
