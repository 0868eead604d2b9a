"""The history of the clients of a simulated cluster, and what a test can assert of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from understudy.testing.simulated_tests.history import history_words as words
from understudy.testing.simulated_tests.history.group_checks import (
    GroupEvidence,
    committed_too_early,
    given_out_of_order,
    not_reached,
    processed_twice,
)
from understudy.testing.simulated_tests.history.history_checks import Evidence, disordered, lost, repeated
from understudy.testing.simulated_tests.history.wire_history import WireHistory
from understudy.testing.simulated_tests.history.wire_records import (
    NO_ERROR,
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

    The bytes on the wire are the evidence, and the logs at the time of the question. So a statement is about what a
    client has sent and was given, and not what its user got. What no client of the run has sent over a connection,
    no statement is about. Call `cluster.calm()` first: a record that is still on its way counts as missing.

    A partition with an unclean election or a loss of power (`FinalLog.may_have_lost`) is left out of all statements
    about logs and commits: Kafka promises nothing there. So is a partition without a log, because it has no leader.

    If consumers of several groups in one process read the same partition, give each a client id of its own: a Fetch
    does not name its group.

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

    # ------------------------------------------------------------------ what has passed

    @property
    def sent(self) -> Sequence[Sent]:
        """Each attempt to send a record, in the order of the requests."""
        return self._wire.decoded().sent

    @property
    def acknowledged(self) -> Sequence[Sent]:
        """The attempts that were acknowledged, the first one of each record, in the order of the requests."""
        first: dict[int, Sent] = {}
        for each in self.sent:
            if each.is_acknowledged:
                first.setdefault(each.send, each)
        return list(first.values())

    @property
    def delivered(self) -> Sequence[Delivered]:
        """Each record in the answer to a Fetch, in the order of the answers."""
        return self._wire.decoded().delivered

    @property
    def commits(self) -> Sequence[Commit]:
        """Each offset in a request to commit, in the order of the requests."""
        return self._wire.decoded().commits

    @property
    def committed(self) -> Sequence[Commit]:
        """The commits that were acknowledged."""
        return [each for each in self.commits if each.error == NO_ERROR]

    @property
    def assigned(self) -> Sequence[Assigned]:
        """The assignments of members, in the order of the answers."""
        return self._wire.decoded().assigned

    @property
    def marked(self) -> Sequence[Processed]:
        """The records that services have marked as processed."""
        return self._wire.marked

    @property
    def unreadable(self) -> Sequence[str]:
        """What could not be decoded, and why, such as a message of a protocol that brokers of 3.9 do not have."""
        return self._wire.decoded().unreadable

    def processed(self, topic: str, partition: int, offset: int, *, group: str | None = None) -> None:
        """Mark a record as processed by the calling process: statements are then about what was processed.

        Args:
            group: the group for which it was processed; None stands for each group of the process that the record was
                delivered to.
        """
        process, incarnation, at_ms = self._caller()
        self._wire.processed(Processed(process, incarnation, group, topic, partition, offset, at_ms, order=0))

    # ------------------------------------------------------------------ statements

    def assert_nothing_lost(self, topic: str | None = None, group: str | None = None) -> None:
        """Assert that each acknowledged record is in the log of its partition, and that `group` was given it.

        *Judges:* records that were sent with acks=all or acks=1. A record that was acknowledged with acks=1 and is gone
        is lost to its users as well, and the message says that acks=1 allows that. With a
        group, of the topics that its members read, from the first offset on that a member has fetched from a partition
        (from its start if none has): the record has to be in an answer to a member or, if services mark records of the
        topic by `processed`, to be marked. A record at another offset than the acknowledged one is not lost.

        *Cannot judge:* records sent with acks=0, which nothing acknowledges; records before the log start offset, which
        retention or DeleteRecords removed; records of a compacted topic with a later record of their key, and
        tombstones that compaction has removed; without marks, whether a consumer that was given a record has also
        returned it. A group is not expected to read the records of transactions that were aborted or have no end.

        Args:
            topic: the topic to judge; None for all.
            group: the group to judge in addition; None for the logs alone.

        Raises:
            AssertionError: a record is lost.
            ValueError: no client or log has the topic, or no client the group.
        """
        evidence = self._evidence(topic)
        _fail("acknowledged records are lost", lost(evidence, topic))
        if group is not None:
            found = not_reached(self._group(evidence, group), topic)
            _fail(f"acknowledged records have not reached the group {group}", found)

    def assert_in_order(self, topic: str | None = None, *, seeks: bool = False) -> None:
        """Assert that logs have records in the order of sends, and that consumers are given them by offset.

        *Judges:* for each producer and partition, the first appearances in the log of all records that were sent,
        acknowledged or not, in the order of their first attempts; for each consumer and partition, the offsets that it
        is given in one assignment. If a process marks records of a partition by `processed`, the marks are judged
        instead of what it is given.

        *Cannot judge:* the order of records in different partitions, or of different producers; a record that was sent
        several times if compaction or retention may have removed its first appearance. Producers without idempotence
        that have one client id in one process count as one, except for records that are on their way at the same time.
        That records are skipped is no matter of order: see `assert_nothing_lost` with a group.

        Args:
            topic: the topic to judge; None for all.
            seeks: whether services seek, or pause partitions. A fetch that goes back then begins anew; otherwise it is
                a failure, because on the wire it looks the same as a client that has lost its position.

        Raises:
            AssertionError: records are not in order.
            ValueError: no client or log has the topic.
        """
        evidence = self._evidence(topic)
        _fail("records are in the log before others that were sent earlier", disordered(evidence, topic))
        _fail("records do not come in the order of offsets", given_out_of_order(evidence, topic, seeks=seeks))

    def assert_once(self, topic: str | None = None, group: str | None = None) -> None:
        """Assert that no record of one send is in the log twice, and that `group` has processed no record twice.

        *Judges:* all records that were sent, acknowledged or not, whether their producers are idempotent or not. With a
        group: if services mark records of a topic by `processed`, each mark counts. Otherwise a record counts as
        processed by a member that was given it and has then sent a commit of a later offset, even if that was refused.

        *Cannot judge:* a service that calls `send` twice, which are two sends, unless it also sets the timestamps;
        without marks, records that a member has processed before it died and without a commit; transactions: the
        records of an aborted one, sent again in the next, are two sends.

        Args:
            topic: the topic to judge; None for all.
            group: the group to judge in addition; None for the logs alone.

        Raises:
            AssertionError: a record is there, or was processed, more than once.
            ValueError: no client or log has the topic, or no client the group.
        """
        evidence = self._evidence(topic)
        _fail("records of one send are in the log more than once", repeated(evidence, topic))
        if group is not None:
            found = processed_twice(self._group(evidence, group), topic)
            _fail(f"records were processed more than once by the group {group}", found)

    def assert_committed_is_processed(self, group: str | None = None) -> None:
        """Assert that no commit is ahead of what the members of its group have processed.

        *Judges:* each commit that was stored or has no answer: when it is sent, each record of the partition before its
        offset, from the first offset on that a member has fetched, has to be marked by `processed` or, if no record of
        the topic is, delivered to some member. Control records and the records of transactions that were aborted or
        have no end are left out, and what compaction or retention has removed since.

        *Cannot judge:* partitions of which no member has fetched; without marks, whether a record that was delivered
        was processed, so that a commit before the processing is only found with marks; services that seek forwards or
        skip records on purpose, and offsets that an operator has set: each fails here.

        Args:
            group: the group to judge; None for all that have committed.

        Raises:
            AssertionError: a commit is ahead.
            ValueError: no client has the group.
        """
        evidence = self._evidence(None)
        groups = dict.fromkeys(each.group for each in self.commits) if group is None else [group]
        found = [text for each in groups for text in committed_too_early(self._group(evidence, each))]
        _fail("commits are ahead of what was processed", found)

    def _evidence(self, topic: str | None) -> Evidence:
        decoder = self._wire.decoded()
        logs = self._logs()
        topics = (
            *(name for name, _ in logs),
            *(each.topic for each in decoder.sent),
            *(each.topic for each in decoder.delivered),
        )
        if topic is not None:
            _check_known("topic", topic, topics)
        return Evidence(decoder.sent, decoder.delivered, self._wire.marked, decoder.assigned, logs)

    def _group(self, evidence: Evidence, group: str) -> GroupEvidence:
        decoder = self._wire.decoded()
        positions = {
            partition: position for (_, partition), position in decoder.positions.items() if position.group == group
        }
        commits = [each for each in decoder.commits if each.group == group]
        known = (
            *(each.group for each in decoder.commits),
            *(each.group for each in decoder.assigned),
            *(each.group for each in decoder.positions.values() if each.group is not None),
        )
        _check_known("group", group, known)
        return GroupEvidence(group, evidence, commits, positions)


def _fail(what: str, findings: Sequence[str]) -> None:
    if findings:
        raise AssertionError(words.listed(what, findings))


def _check_known(kind: str, name: str, known: Iterable[str]) -> None:
    """Refuse a name that nothing has: a statement about it would always hold.

    Raises:
        ValueError: `name` is not among `known`.
    """
    names = sorted(set(known))
    if name not in names:
        raise ValueError(f"{kind} {name!r}: no client of the run has it; expected one of {', '.join(names) or 'none'}")
