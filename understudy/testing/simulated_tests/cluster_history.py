"""The history of the clients of a simulated cluster, for the asserts of a test."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from understudy.testing.simulated_tests.wire_history import WireHistory
from understudy.testing.simulated_tests.wire_records import (
    Assigned,
    Commit,
    Delivered,
    FinalLog,
    Partition,
    Processed,
    Sent,
)


class Caller(NamedTuple):
    """The process whose code runs now, and the virtual time.

    Attributes:
        process: empty outside of every process, as in the test itself.
    """

    process: str
    incarnation: int
    at_ms: float


class ClusterHistory:
    """What passed between clients and brokers so far, and statements about it that a test can assert.

    Args:
        wire: takes the bytes.
        logs: reads the logs of all partitions, as they are when it is called.
        caller: returns the process that marks a record as processed.
    """

    def __init__(
        self, wire: WireHistory, logs: Callable[[], Mapping[Partition, FinalLog]], caller: Callable[[], Caller]
    ) -> None:
        self._wire = wire
        self._logs = logs
        self._caller = caller

    @property
    def sent(self) -> Sequence[Sent]:
        """Each attempt to send a record, in the order of the requests."""
        raise NotImplementedError

    @property
    def acknowledged(self) -> Sequence[Sent]:
        """The attempts that were acknowledged, the first one of each record."""
        raise NotImplementedError

    @property
    def delivered(self) -> Sequence[Delivered]:
        """Each record in the answer to a Fetch, in the order of the answers."""
        raise NotImplementedError

    @property
    def commits(self) -> Sequence[Commit]:
        """Each offset in a request to commit, in the order of the requests."""
        raise NotImplementedError

    @property
    def committed(self) -> Sequence[Commit]:
        """The commits that were acknowledged."""
        raise NotImplementedError

    @property
    def assigned(self) -> Sequence[Assigned]:
        """The assignments of members, in the order of the answers."""
        raise NotImplementedError

    @property
    def marked(self) -> Sequence[Processed]:
        """The records that services have marked as processed."""
        raise NotImplementedError

    def processed(self, topic: str, partition: int, offset: int, *, group: str | None = None) -> None:
        """Mark a record as processed by the calling process: the asserts then judge what was processed.

        Args:
            group: the group for which it was processed; None stands for each group of the process that the record was
                delivered to.
        """
        raise NotImplementedError

    def assert_nothing_lost(self, topic: str | None = None, group: str | None = None) -> None:
        """Assert that every acknowledged record is in the log of its partition, and was delivered to `group`."""
        raise NotImplementedError

    def assert_in_order(self, topic: str | None = None) -> None:
        """Assert that records are in the log in the order of sends, and are delivered in the order of offsets."""
        raise NotImplementedError

    def assert_once(self, topic: str | None = None, group: str | None = None) -> None:
        """Assert that no record of one send is in the log twice, and that `group` has processed none twice."""
        raise NotImplementedError

    def assert_committed_is_processed(self, group: str | None = None) -> None:
        """Assert that no commit is ahead of what was delivered to its group, or processed by it."""
        raise NotImplementedError
