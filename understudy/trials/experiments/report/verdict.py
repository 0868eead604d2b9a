"""`Verdict`: the result of an experiment, as data. The page, the JSON and the JUnit XML are written from it."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from understudy.history.metrics.metric_tables import Failover
from understudy.trials.experiments.report.timeline import Timeline

VERSION = 2
"""The version of the JSON."""


class Status(StrEnum):
    """The end of an experiment, or of one expectation."""

    HELD = "held"
    VIOLATED = "violated"
    UNTESTED = "untested"
    """Nothing in the run could have violated the expectation."""
    UNJUDGED = "cannot be judged"
    """Records are missing: they could refute what was found, or only a part of the run is on record."""
    NOT_STARTED = "not started"
    """The steady state was not reached, so that nothing was injected."""
    NOT_INJECTED = "not injected"
    """A step was not done: the run shows nothing about its question."""


EXIT_CODES = {
    Status.HELD: 0,
    Status.VIOLATED: 1,
    Status.UNJUDGED: 2,
    Status.NOT_STARTED: 2,
    Status.NOT_INJECTED: 2,
}


class StepDone(msgspec.Struct, kw_only=True):
    """A step as it was done. Times are ms since the first record of the run."""

    number: int
    line: int
    text: str
    brokers: tuple[int, ...] = ()
    done_ms: float | None = None
    """When it was done; None if it was not."""
    ended_ms: float | None = None
    """When its fault ended; None if nothing ended it before the end of the experiment."""
    failure: str = ""
    """Why it was not done."""


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """One expectation and what was seen.

    Attributes:
        kind: `always`, `within`, `sometimes`, `never`, or `run` for what must hold of every run.
        name: its id, for example C4a, L1 or a mark.
        sentence: what it says, as a clause.
        where: the first witness: `broker-1/1#42` (node, incarnation, sequence number), `zxid 17`, `send 12` …
        link: the fragment of the page's address that shows it, with what proves it marked; empty if there is none.
    """

    kind: str
    name: str
    status: Status
    sentence: str
    expected: str = ""
    seen: str = ""
    where: str = ""
    link: str = ""
    times_tested: int = 0


class Clients(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of records that producers have sent, by outcome, and that consumers have read.

    Attributes:
        lost: the number of acknowledged records that are not in the log at the end, by producer; producers that lost
            none are left out.
    """

    sent: int
    acknowledged: int
    refused: int
    unknown: int
    read: int
    lost: dict[str, int] = {}

    @property
    def all_lost(self) -> int:
        return sum(self.lost.values())


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one run of an experiment.

    Attributes:
        timeline: begins when the load begins, from which the times in the steps of the file count.
        last_fault_ms: ms since the first record of the run.
    """

    version: int = VERSION
    name: str
    title: str
    question: str
    story: str
    refs: tuple[str, ...]
    engine: str
    seed: int
    status: Status
    why: str
    """The status in a sentence."""
    steps: tuple[StepDone, ...]
    expected: tuple[Expected, ...]
    failovers: tuple[Failover, ...]
    marks: dict[str, int]
    """Number of times that each mark was reached."""
    clients: Clients
    last_fault_ms: float
    reached_ms: dict[str, float | None]
    timeline: Timeline
    notes: tuple[str, ...]
    missing: tuple[str, ...] = ()
    """The records that are missing from the event logs, each as a sentence without a full stop."""
    records: int
    transactions: int
    command: str
    """The command line that runs it again."""
    frozen: str
    """The plan with everything drawn, as YAML."""
    software_version: str = ""

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.status]

    @property
    def violations(self) -> tuple[Expected, ...]:
        return tuple(each for each in self.expected if each.status is Status.VIOLATED)

    @property
    def unjudged(self) -> tuple[Expected, ...]:
        return tuple(each for each in self.expected if each.status is Status.UNJUDGED)
