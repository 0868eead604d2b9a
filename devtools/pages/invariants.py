"""Generates docs/reference/invariants.md: the invariants, read from the classes of the checks, and the other ids code
names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from devtools.pages.source import path_of
from devtools.pages.text import bullet
from understudy.checks import leader_agreement, producers, replication
from understudy.checks.check import HistoryCheck, InvariantCheck
from understudy.checks.client_history import CLIENT_CHECKS
from understudy.checks.groups import GROUP_CHECKS
from understudy.checks.invariant_checker import ALL_CHECKS
from understudy.checks.missing import RefutedBy

NAME = "reference/invariants.md"

HEAD = """\
# Invariants and rules

Every id that code, tests and docs use and that is not in [behaviours.md](behaviours.md) is defined here. `KAFKA-…`,
`ZOOKEEPER-…` and `KIP-…` are the issues and proposals of Apache Kafka and Apache ZooKeeper. The steps of a reassignment
(U1 to U3, A1, A2, B1 to B9 in `controller/reassignment/phases.py`) are in
[behaviours.md](behaviours.md#reassignment).

## What is checked in every run

`understudy check`, `understudy simulate` and the tests check these over the event logs and ZooKeeper's own transaction
log. A violation names the id, the sentence, and the first record or transaction that contradicts it. The list is
written from `understudy/checks/` by `python -m devtools.pages`.

| exit code of `understudy check` | |
|---|---|
| 0 | every invariant holds |
| 1 | an invariant is violated |
| 2 | the folder cannot be checked |
| 3 | records are missing: an invariant cannot be judged, or all of them hold only in the records that are there |

A check whose violation could be refuted by a record that is missing cannot be judged, and is no violation
([the event log](event-log.md) says how it shows). Each check declares which records could refute what it finds;
some contradictions of a check, such as two facts of one record, need less:

| what could refute it | checks |
|---|---|
"""

REFUTED_BY: Final = {
    RefutedBy.NOTHING: "nothing: the records, or ZooKeeper's transactions, contradict each other",
    RefutedBy.EARLIER_OF_INCARNATION: "earlier records of the same incarnation",
    RefutedBy.ALL_OF_INCARNATION: "earlier and later records of the same incarnation",
    RefutedBy.EARLIER_OF_NODE: "earlier records of the same node",
    RefutedBy.BROKERS: "records of any broker",
    RefutedBy.ZNODES: "the history of the znodes",
}
"""The records that could refute what a check finds, in words."""

EVERY_RUN = """\

A transaction log that was cut or lacks a file is missing as a whole: only the event logs are checked then.
"""

LOGS = """\

- **T2** Every line of an event log is a record, and sequence numbers have no gaps. Seeds are checked for it, because
  their lines stay in memory. In a folder such lines may have been lost later: they are missing records.

## What is checked of the data

These checks read the [records of logs](event-log.md#records-of-the-logs-of-partitions), which a broker writes with
`understudy.events.logs=true`. Records may be lost by an unclean election, and by the election of a replica whose log
is shorter after a loss of power; what follows from such a loss is no violation.
"""

CLIENTS = """\

These compare what producers and consumers have seen (`understudy/checks/client_history.py`), with no help from the
brokers. Every seed of `understudy simulate` has three producers and a consumer, and reads everything at its end; what
an unclean election has lost is excused:
"""

GROUPS = """\

These compare what members of consumer groups have seen of their coordinators (`understudy/checks/groups.py`): each
commit with its times, each fetched offset, who owned what in which generation, and what the members have at the end.
`GroupLoad` in `understudy/clusters/clients/group_load.py` runs members and keeps that history. Half of the seeds have
one to three groups, whose members join, leave, end without a word and start again during the faults, and two groups
that commit once and early; at the end every group must settle, and everything that was committed is fetched. A group is
excused if an unclean election or a loss of power took records of its partition of `__consumer_offsets`, and if its
offsets were deleted or have expired; a commit without an answer may be stored or not, until its offset is fetched:
"""

REST = """\

## What must be true once faults have ended

These are the findings that must disappear by themselves (`understudy/clusters/findings.py`). The simulator looks for
them after the last fault of a run, when the cluster has had time to recover; `understudy status` and the demo do so on
processes.

- **L1** Exactly one broker is the active controller, and it owns `/controller`.
- **L2** Every partition with a live member in its ISR has a live leader, and so has one with a live replica that has no
  state yet.
- **L3** The ISR of every partition is all of its live replicas.
- **L4** The metadata cache of every live broker is what ZooKeeper holds.
- **L5** Producers are acknowledged at 80 % of the rate before the first fault.
- **L7** The controller stays, and it writes no partition state any more.
- **L8** L1 to L4 also come true while one broker is away. A quarter of the seeds kill a broker when all is healed, and
  start it again once the others have settled.

## What is assumed of ZooKeeper

The contract suite (`tests/contracts`) shows the same cases to Apache ZooKeeper and to the simulated one: Z1, Z2 and Z6
above, and three that no log can show. Z1 also means that a session's requests take effect in the order in which it sent
them, and that a session never reads an older state after a newer one.

- **Z3** A watch fires once, and its event arrives before any answer that shows the change. When a connection breaks,
  kazoo calls every watcher once and removes it.
- **Z4** No request of an earlier connection takes effect once the session is attached to a later one.
- **Z5** After a lost connection the outcome of a write is unknown: it may have been applied, refused, or never sent.

## Rules of the code

- **D13** Responses leave a connection in the order of its requests. After a reconnect the ZooKeeper client arms its
  watches again and reports what may have changed meanwhile. The client of an ended session fails for ever, and the end
  of a session is processed before anything of the next one.
- **D14** Every queue and every wait has a bound, and each bound has a consequence: the controller resigns, a channel
  coalesces its requests, one partition fails while the others proceed, a request that ZooKeeper would refuse is not
  sent. If Kafka has no such bound, [fidelity.md](../inside/fidelity.md#bounds-that-kafka-does-not-have) lists it.
- **D15** Many partition states are written in one transaction, decided from memory
  ([decision 2](../inside/decisions/0002-writes-from-memory.md)).
- **D16** Znodes hold the bytes Kafka writes, and `server.properties` is read as Java reads it.
- **D17** Broker processes start with `python -P` in their run folder, so that no folder of the user's hides a package.
  SIGTERM begins a controlled shutdown that has a bound; a second signal ends the process at once.
- **D18** Named points stand before and after every fenced write and every flush of requests
  ([the list](../../controller/points.py)); they do nothing unless an experiment arms them.
- **R-5** The result of a ZooKeeper request is a value, and *unknown* is one of them: no write is repeated without
  finding out whether the first was applied.
- **R-6** What was read before an `await` may have changed after it. Conditional writes and the exceptions that end a
  role take care of that; nothing of an ended session is reached through the next one.
- **R-9** Long-lived tasks belong to a supervisor. An unexpected exception in one stops the broker and leaves a record.
- **R-11** An event log has one writer, and a record is written before the effect it describes leaves the node.
- **T4** Each check has at least one history in the tests that it accepts and one that it rejects.
"""


def page() -> str:
    of_logs = (*replication.CHECKS, *leader_agreement.CHECKS, *producers.CHECKS)
    every_run = _bullets(check for check in ALL_CHECKS if check not in of_logs)
    of_clients = [CLIENTS, *_bullets(CLIENT_CHECKS), GROUPS, *_bullets(GROUP_CHECKS)]
    head = HEAD + "\n".join(_refutations()) + "\n" + EVERY_RUN
    return "\n".join([head, *every_run, LOGS, *_bullets(of_logs), *of_clients, REST])


def _refutations() -> Iterator[str]:
    """Yield a row of the table for each kind of records that could refute what some checks find."""
    every: tuple[type[InvariantCheck] | type[HistoryCheck[Any]], ...] = (*ALL_CHECKS, *CLIENT_CHECKS, *GROUP_CHECKS)
    for kind in sorted({check.refuted_by for check in every}, key=lambda kind: kind.value):
        words = " and ".join(REFUTED_BY[each] for each in kind) or REFUTED_BY[kind]
        yield f"| {words} | {', '.join(check.id for check in every if check.refuted_by is kind)} |"


def _bullets(checks: Iterable[type[InvariantCheck] | type[HistoryCheck[Any]]]) -> Iterator[str]:
    for check in checks:
        sentence = check.sentence[0].upper() + check.sentence[1:]
        yield bullet(f"**{check.id}** {sentence}. (`{check.__name__}` in `{path_of(check.__module__)}`)")
