"""Defines the numbers of one run, as rows of tables: the meaning, formula and unit of each.

`understudy.history.metrics.metrics` computes these tables. Tests compute them again with SQL in Spark, and require
that both agree to the last digit. So every formula here is exact: times are whole microseconds after the run's first
record, compared and summed as integers and divided by 1000 only in the end; percentiles are nearest rank; nothing
depends on the order in which logs were read.

Words used below. *At*: a record's `mono_ms` in whole microseconds (half up), minus the smallest of the run. *Before*
and *last* compare (at, node, incarnation, seq). The node of broker N is called `broker-N`. A *reign* is what one
`ControllerElected` begins; reigns are ordered by epoch. *Deleted* is a `WatchFired` for `/controller` of kind
`deleted`.

A node's *session timeout* at some time is the timeout of its last `SessionOpened` up to then, or the run's setting
`session_timeout_ms` if there is none. The *silence* of an incarnation before some time begins with its last record up
to then. If that record is more than one and a half session timeouts before that time, the silence begins one session
timeout before it. ZooKeeper ends a session at the tick after its client has sent nothing for a session timeout, and a
tick is at most half a session timeout unless it is configured otherwise. So the process was lost at most one session
timeout before or after the beginning of the silence.
"""

from __future__ import annotations

import msgspec


class Table(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A row of a table. All times are milliseconds, to the microsecond; `None` if the run has no such number."""

    doubt: tuple[str, ...] = ()
    """The columns of this row that could have other values if no record of the run were missing, or if its clocks were
    a little different, sorted."""


DEFINITIONS = 2
"""Version of the meanings of numbers, raised if one changes in the same column. Lakes compute older numbers again."""


class Reign(Table, frozen=True, kw_only=True, gc=False):
    """One controller, from its election until it is lost. Its window lasts until the next election, both ends included.

    A reign may be *ended by a fault*: the last fault in its window that is injected into its node. A fault is a
    `FaultInjected` with the node or `/controller` as target, or a `PointReached` of the node itself. `start` is not a
    fault, and if the last one is `resume` or `heal`, no fault ended the reign. A reign that no fault ended may have
    *last words*: the first record of its incarnation after its election, in its window, that is a `ProcessExiting`
    (`exit`), `SessionExpired` (`session expired`), `ControllerResigned` (`resigned`) or deleted (`deleted`).

    Its loss is *noticed* by the first deleted or `BecameCandidate` of another node in its window that is no echo, at or
    after the fault if a fault ended it. An echo is a late report of the loss before: the same incarnation's next
    deleted or `ElectionLost` is an `ElectionLost` to this reign's broker in the window.

    The reign ends with its fault. Without one it ends with the last record of its incarnation up to the time at which
    its loss was noticed, or else up to the next election. A reign with neither a fault nor last words, whose loss was
    noticed, ends when its silence before that begins, if the session timeout is known. The run's last reign, if no
    fault ended it, ends with its last words or not at all; a deletion noticed before them is not its loss.
    """

    epoch: int
    """Its controller epoch."""
    broker: int
    """Its broker id."""
    node: str
    """Its node, for example `broker-1`."""
    incarnation: int
    """How often that node had started."""
    elected_at_ms: float
    """When its `ControllerElected` was written."""
    ready_at_ms: float | None
    """Its first `ControllerReady` of this epoch."""
    ended_at_ms: float | None
    """`None` if it still reigns at the end."""
    ended_by: str
    """The fault that ended it; else its last words; else `silence`; empty while it reigns."""
    by_fault: bool
    """Whether an injected fault ended it."""
    noticed_at_ms: float | None
    """When its loss was noticed."""
    noticed_by: str
    """The node that noticed; empty if none did."""


class Failover(Table, frozen=True, kw_only=True, gc=False):
    """The change from one controller to the next: a row for every reign but the run's first.

    The four phases are gapless: `detection + election + takeover + propagation` is the time from the loss to the moment
    when the last broker has acknowledged the last request of the takeover.
    """

    epoch: int
    """The new controller epoch."""
    broker: int
    """The new controller."""
    previous_epoch: int
    """The controller epoch before."""
    previous_broker: int
    """The controller before."""
    cause: str
    """`Reign.ended_by` of the reign before."""
    by_fault: bool
    """`Reign.by_fault` of the reign before."""
    noticed_by: str
    """The node that noticed the loss; empty if none did."""
    lost_at_ms: float
    """`Reign.ended_at_ms` of the reign before."""
    detection_ms: float | None
    """From the loss until it is noticed: mostly ZooKeeper's session timeout."""
    detection_within_ms: float | None
    """The clocks of the two records allow `detection_ms` to be wrong by at most this; 0 on one clock."""
    election_ms: float | None
    """From noticing to `ControllerElected`."""
    election_within_ms: float | None
    """As `detection_within_ms`, for `election_ms`."""
    takeover_ms: float | None
    """From `ControllerElected` to `ControllerReady`: the cluster's state is read, its requests are in channels. It is
    `reading + deciding + writing`, if these are known."""
    reading_ms: float | None
    """Of the takeover: up to the first `ContextLoaded` of its incarnation after the election: ZooKeeper's znodes are
    read. `None` without one before `ControllerReady`."""
    deciding_ms: float | None
    """Of the takeover: the rest, in which leaders are elected and requests are handed to channels. `None`, as
    `writing_ms`, if `reading_ms` is `None`, if the `ControllerElected` has no cause, or if its incarnation left no
    `ZkWrite`, as in imported logs."""
    writing_ms: float | None
    """Of the takeover: time after reading in which at least one write awaits ZooKeeper: a `ZkWrite` of the new
    controller's incarnation with the same cause as its `ControllerElected`, until the `ZkWriteDone` that it caused,
    or until `ControllerReady` if that is earlier or no `ZkWriteDone` came."""
    propagation_ms: float | None
    """From `ControllerReady` to the last `ResponseReceived` that answers a request of this takeover; 0 if all had
    been answered before. The requests of a takeover are the `RequestSent` of the new controller's incarnation and epoch
    with the same cause as its `ControllerElected`, which must have one. `None` if none was answered."""
    outage_ms: float | None
    """From the loss to `ControllerReady`: how long the cluster had no controller."""
    outage_within_ms: float | None
    """As `detection_within_ms`, for `outage_ms`."""
    requests: int | None
    """Requests of the takeover, each counted once (`attempt` 1). `None` if the `ControllerElected` has no cause."""
    unanswered: int | None
    """Requests of the takeover that no `ResponseReceived` answers, whatever the attempt."""
    brokers: int | None
    """Live brokers in `ControllerReady`; `None` without one."""
    partitions: int | None
    """Partitions in `ControllerReady`; `None` without one, or if it has −1: an imported log did not state it."""

    def time_ms(self, name: str) -> float | None:
        """Return the length of one of `PHASES`, or of the `outage`."""
        found: float | None = getattr(self, f"{name}_ms")
        return found

    def time_within_ms(self, name: str) -> float:
        """Return by how much the length of one of `PHASES`, or of the `outage`, may be wrong; 0 on one clock.

        The takeover and the propagation lie between records of one process.
        """
        found: float | None = getattr(self, f"{name}_within_ms", None)
        return found or 0.0


PHASES = ("detection", "election", "takeover", "propagation")
"""Names of the phases of a failover."""


class PartitionNumbers(Table, frozen=True, kw_only=True, gc=False):
    """One topic-partition.

    Its states are the states in `LeadershipWritten` and the states that a new controller read (`ContextLoaded`). After
    `TopicsChanged.deleted` it has no state until the next one. A state whose writer's controller epoch is lower than
    one seen before is dropped: a paused controller writes its record late. The writer's epoch is the state's own
    `controller_epoch` in `LeadershipWritten`, and `epoch` in `ContextLoaded`; a deletion has its envelope's.

    At any time the latest state names the partition's leader. The partition is without a leader while this broker id is
    negative or this broker is down. A broker is down from a `kill`, `power_loss`, `pause` or `crash` injected into its
    node, a `PointReached` or `ProcessExiting` of its node, or the beginning of its silence before it was seen to be
    gone; until a `resume`, a `BrokerRegistered` of its node, or a `BrokersChanged` that lists it as new or bounced
    (which wins at the same microsecond).

    A broker was *seen to be gone* at a `BrokersChanged` that lists it as dead. If it had registered
    (`BrokerRegistered`) before, it was also seen to be gone at the election of a controller whose `ControllerReady`
    lacks it, as in the case of a killed controller. That counts unless the broker was already down by a record of
    another kind. The silence is the silence of the incarnation that had registered last. Without a registration or a
    session timeout, the broker is down from the time at which it was seen to be gone.
    """

    topic: str
    """The topic's name."""
    partition: int
    """The partition's number in the topic."""
    leader: int | None
    """In the last state; `None` if the topic has been deleted."""
    leader_epoch: int | None
    """In the last state; not the number of elections, because it also grows with the assignment."""
    isr: tuple[int, ...] | None
    """In the last state."""
    writes: int
    """States in `LeadershipWritten`."""
    clean_elections: int
    """States in `LeadershipWritten` that name a leader (not negative) other than the one before, written for any reason
    but `alter-partition` and `isr-removal`, which elect no leader, and `unclean`."""
    unclean_elections: int
    """The same for the reason `unclean`: acknowledged records may be lost."""
    isr_shrinks: int
    """States whose ISR lacks a broker of the one before."""
    isr_expands: int
    """States whose ISR has a broker that the one before lacks."""
    leaderless_ms: float
    """How long it was without a leader, from its first state to the run's end or its deletion."""
    leaderless_within_ms: float
    """The clocks of the records allow `leaderless_ms` to be wrong by at most this; 0 on one clock."""


class Elections(Table, frozen=True, kw_only=True, gc=False):
    """The partition states that were written to ZooKeeper for one reason."""

    why: str
    """The reason, as in `LeadershipWritten`."""
    records: int
    """`LeadershipWritten` records."""
    partitions: int
    """States in them."""
    elected: int
    """States that count as an election in `PartitionNumbers`."""


class FailedElections(Table, frozen=True, kw_only=True, gc=False):
    """Partitions that got no leader, by reason and error (`LeadershipNotWritten`)."""

    why: str
    """The reason, as in `LeadershipNotWritten`."""
    error: str
    """The name of Kafka's error, or the reason in words."""
    partitions: int
    """How many times a partition was refused for it; one that was refused twice counts twice."""


class Requests(Table, frozen=True, kw_only=True, gc=False):
    """Requests of one kind that one kind of controller event sent (`RequestSent`); `event` is empty for a broker's own
    requests."""

    event: str
    """The kind of controller event; empty for requests that no event sent."""
    api: str
    """Kafka's name of the request."""
    sent: int
    """`RequestSent` records, repeated attempts included."""
    resent: int
    """`RequestSent` records with `attempt` above 1."""
    partitions: int
    """Sum of the partitions in `RequestSent` records."""
    answered: int
    """`RequestSent` records that caused a `ResponseReceived`."""
    failed: int
    """`RequestSent` records that caused a `RequestFailed`."""
    p50_ms: float | None
    """Nearest-rank percentiles of the time from `RequestSent` to `ResponseReceived`."""
    p99_ms: float | None
    """As `p50_ms`, for 99 in a hundred."""
    max_ms: float | None
    """The longest."""


class Refusals(Table, frozen=True, kw_only=True, gc=False):
    """Errors in answers (`ResponseReceived`)."""

    api: str
    """Kafka's name of the request."""
    error: str
    """The name of Kafka's error."""
    requests: int
    """Answers with this error for the request as a whole."""
    partitions: int
    """Partitions with this error in answers; a record lists only the first of many."""


class FenceHits(Table, frozen=True, kw_only=True, gc=False):
    """The hits of one fence of one node by one stale request or write (`FenceHit`)."""

    fence: str
    """The fence's name, as in `FenceHit`."""
    node: str
    """The node that has the fence."""
    what: str
    """What was stale."""
    offered: int
    """The epoch or version that it had."""
    known: int
    """The epoch or version that the node compared it with."""
    hits: int
    """How often; a write that is sent again is counted again."""
    let_through: int
    """Hits while the fence was switched off."""
    first_at_ms: float
    """The first time."""


class EventNumbers(Table, frozen=True, kw_only=True, gc=False):
    """One kind of controller event."""

    event: str
    """Kafka's name of the event."""
    queued: int
    """`EventQueued` records."""
    started: int
    """`EventStarted` records."""
    ended: int
    """`EventEnded` records, of every outcome."""
    preempted: int
    """`EventPreempted` records."""
    not_done: int
    """Ended with another outcome than `done`."""
    queued_p50_ms: float | None
    """Nearest-rank percentiles of `EventStarted.queued_ms`."""
    queued_p99_ms: float | None
    """As `queued_p50_ms`, for 99 in a hundred."""
    took_p50_ms: float | None
    """Nearest-rank percentiles of `EventEnded.took_ms`."""
    took_p99_ms: float | None
    """As `took_p50_ms`, for 99 in a hundred."""
    took_max_ms: float | None
    """The longest."""


class Moment(Table, frozen=True, kw_only=True, gc=False):
    """A fault, an armed point that was reached, or a step of the scenario."""

    at_ms: float
    """When it was written, which is before a fault takes effect."""
    kind: str
    """`fault`, `point` or `step`."""
    what: str
    """The fault, the point's action, or the step."""
    target: str
    """The target of the fault, the node at the point, or nothing."""
    note: str
    """The role for which the target was chosen, the point's name, or the step's note."""


class Totals(Table, frozen=True, kw_only=True, gc=False):
    """A run in one row; sums are over the rows of the other tables.

    The run ends with its last record, except that an orderly end is not an outage: if the last reign ended by `stop`
    or `exit` and no other broker left a record after that, the run ends then. Nothing later counts as time without a
    controller or leader.
    """

    is_complete: bool
    """Whether `missing` has no row. Rows that are missing altogether cannot be in doubt, but the counts of rows are."""
    started_ms: float
    """Milliseconds since 1970 UTC: the smallest wall clock."""
    ended_at_ms: float
    """The end of the run."""
    nodes: int
    """Nodes that left a record."""
    incarnations: int
    """Starts of nodes that left a record."""
    records: int
    """Of known type and version."""
    controllers: int
    """Reigns."""
    without_controller_ms: float | None
    """From the run's first `ControllerReady` to its end, less all the time from a reign's `ControllerReady` to its
    end. `None` if no reign has a `ControllerReady`: the cluster may never have had a controller, or the log may lack
    the controller's records."""
    without_controller_within_ms: float | None
    """The clocks of the records allow `without_controller_ms` to be wrong by at most this; 0 on one clock."""
    partitions: int
    """Rows of `partitions`, deleted ones included."""
    leaderless_ms: float
    """Partition-milliseconds without a leader."""
    leaderless_within_ms: float
    """As `without_controller_within_ms`, for `leaderless_ms`."""
    leaderless_partitions: int
    """Partitions that were without a leader for any time."""
    clean_elections: int
    """Of all partitions."""
    unclean_elections: int
    """Of all partitions; each may have lost acknowledged records."""
    isr_shrinks: int
    """Of all partitions."""
    isr_expands: int
    """Of all partitions."""
    requests: int
    """`RequestSent` records, repeated attempts included."""
    fence_hits: int
    """`FenceHit` records."""
    let_through: int
    """Hits of fences that were switched off."""


class Settings(Table, frozen=True, kw_only=True, gc=False):
    """How a run was set up, in one row; `None` if its records do not contain it.

    A setting is taken from the first `RunDescribed` that has it; null and an empty text do not count. Without one,
    three settings are derived from other records, if these have them. The mode is always derived.
    """

    world: str | None
    """`simulator`, `processes` or `containers`."""
    brokers: int | None
    """Derived: the number of nodes with a name `broker-N` that left records."""
    partitions: int | None
    """Derived: the largest number of partitions in a `ControllerReady`, if that is above 0. Topics may be created
    after the only `ControllerReady`, so 0 means nothing."""
    session_timeout_ms: int | None
    """Derived: the longest session timeout in a `SessionOpened`, which is the one that ZooKeeper granted."""
    seed: int | None
    """The number from which every random number of a simulated run is derived."""
    fault: str | None
    """The fault that the experiment plans to inject into the controller; `moments` has what was injected."""
    software_version: str | None
    """The version of the brokers' software: of Understudy, or of Apache Kafka."""
    software_commit: str | None
    """The commit of Understudy's sources, shortened; changes that were not committed do not show."""
    mode: str | None
    """Derived: `kafka-kraft` if a `RunDescribed` says that the run is imported from a KRaft cluster; otherwise
    `kafka-zk` if a `ProcessStarted` names Apache Kafka, and `understudy` if one names Understudy."""


class Missing(Table, frozen=True, kw_only=True, gc=False):
    """A stretch in which records of a node are missing, by the evidence of other records.

    A run is complete if it has no such row. The log of a process that was killed is not missing records.
    """

    node: str
    """The node; empty if it cannot be said which node it was."""
    incarnation: int | None
    """The incarnation; `None` if it cannot be said which one, or all of them are missing."""
    from_ms: float
    """The node's last record before the stretch; 0 without one."""
    until_ms: float
    """The node's first record after the stretch; the run's last record without one."""
    kind: str
    """`no log`, `no incarnation`, `no end`, `no records` (sequence numbers are missing), `no election` or `not ended`:
    the testbed has written no last record, because the run has not ended or the end of that log is missing."""
    evidence: str
    """The evidence, in words."""
    witness: str
    """The record that is the evidence, for example `broker-1/3#42`: node, incarnation, sequence number."""


class Clock(Table, frozen=True, kw_only=True, gc=False):
    """One point of the alignment of an incarnation's monotonic clock; a run on one clock has one row per incarnation.

    A time of the run is `mono_ms + offset_ms`, interpolated between the points of an incarnation, minus the smallest
    such time.
    """

    node: str
    """The node."""
    incarnation: int
    """How often that node had started."""
    machine: str
    """The host's name; empty if no record has it."""
    boot: str
    """Identifies the clock: rows with the same text share it."""
    mono_ms: float
    """The clock at this point."""
    offset_ms: float
    """Added to the clock, it is the time by the run's reference clock."""
    within_ms: float
    """The offset is wrong by at most this; 0 on the reference clock."""
    evidence: str
    """The first evidence that bounds the offset from both sides: `reference`, `messages`, `zxids`, `starts` (starts and
    ends of incarnations, and what the testbed has seen of them) or `wall clock`."""


class RunMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """All tables of one run, rows sorted by `SORTED_BY`, moments by time."""

    run: str
    settings: Settings
    totals: Totals
    reigns: tuple[Reign, ...]
    failovers: tuple[Failover, ...]
    partitions: tuple[PartitionNumbers, ...]
    elections: tuple[Elections, ...]
    failed_elections: tuple[FailedElections, ...]
    requests: tuple[Requests, ...]
    refusals: tuple[Refusals, ...]
    fence_hits: tuple[FenceHits, ...]
    events: tuple[EventNumbers, ...]
    moments: tuple[Moment, ...]
    missing: tuple[Missing, ...] = ()
    clocks: tuple[Clock, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether no record is evidence of records that are missing."""
        return not self.missing


TABLES: dict[str, type[Table]] = {
    "settings": Settings,
    "totals": Totals,
    "reigns": Reign,
    "failovers": Failover,
    "partitions": PartitionNumbers,
    "elections": Elections,
    "failed_elections": FailedElections,
    "requests": Requests,
    "refusals": Refusals,
    "fence_hits": FenceHits,
    "events": EventNumbers,
    "moments": Moment,
    "missing": Missing,
    "clocks": Clock,
}
"""Tables by the names that they have in `RunMetrics` and on disk."""

SORTED_BY: dict[str, tuple[str, ...]] = {
    "reigns": ("epoch", "elected_at_ms", "node", "incarnation"),
    "failovers": ("epoch",),
    "partitions": ("topic", "partition"),
    "elections": ("why",),
    "failed_elections": ("why", "error"),
    "requests": ("event", "api"),
    "refusals": ("api", "error"),
    "fence_hits": ("fence", "node", "what", "offered", "known"),
    "events": ("event",),
    "missing": ("from_ms", "until_ms", "node", "incarnation", "kind"),
    "clocks": ("node", "incarnation", "mono_ms"),
}
"""Columns that order a table's rows and identify each within a run."""
