"""`Outcome`: what one run of a test has shown, as a value that a forked process can send to its parent.

This module imports neither the simulator nor the checks: a process that only collects outcomes stays small.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import msgspec

from understudy.foundation.times import moment


class FailureKind(StrEnum):
    """In which way a run has failed."""

    TEST = "the test has raised an exception"
    SERVICE = "a service has ended with an exception"
    EXCEPTION = "an exception was never retrieved"
    TASKS = "tasks are left over"
    DEADLOCK = "nothing can run"
    LIMIT = "the test has not ended"
    SPIN = "a process does not wait"
    INVARIANT = "an invariant of the cluster is violated"
    UNSETTLED = "the cluster does not settle"
    LOST = "acknowledged records are lost"
    ENVIRONMENT = "the run could not continue"


class LostRecord(NamedTuple):
    """The place in a log at which an acknowledged record was."""

    topic: str
    partition: int
    offset: int


class Problem(msgspec.Struct, frozen=True):
    """One reason why a run has failed.

    Attributes:
        at_ms: virtual time since the run began, when it was found.
        text: one sentence, without the time.
        details: further lines: a traceback, or the tasks that wait.
        place: the type of an exception and the line that has raised it; with `kind` it decides whether two runs have
            failed in the same way. Empty if the kind says all.
        lost: the first record that is lost; None if the problem is another one.
        link: the fragment of the page's address that shows it; empty without a page.
    """

    kind: FailureKind
    at_ms: float
    text: str
    details: tuple[str, ...] = ()
    place: str = ""
    lost: LostRecord | None = None
    link: str = ""

    @property
    def way(self) -> tuple[FailureKind, str]:
        """Equal for problems of two runs that have failed in the same way."""
        return self.kind, self.place

    def __str__(self) -> str:
        return f"at {moment(self.at_ms)} {self.text}"


class Outcome(msgspec.Struct):
    """What one run of a test has shown. It consists of numbers and texts, and can be pickled.

    Attributes:
        problems: why the run has failed, the most important first; empty if it has passed.
        notes: what may be the reason of the problems, in a sentence each.
        began_ms: virtual time at which the test began: the brokers had started.
        virtual_s: virtual time that the test has taken.
        injected: the places in the schedule of the faults that were injected.
        faults: these faults in words, a line each.
        missed: the faults that were not injected, in words, a line each: they have found no target.
        crash_point: at which place a service was killed between two of its awaits, in words; empty for nowhere.
        places: number and words of each place at which it can be killed; only in the run that counts them.
        story: what brokers and clients did, a line each; empty unless it was asked for.
        left_out: number of lines that the story does not show.
        log_lines: what the user's processes have logged, a line each; empty unless the story was asked for.
        digest: equal runs have the same.
        callbacks: number of callbacks that were run.
        records: number of records of the brokers' event logs.
        sent, acknowledged: numbers of attempts to send a record, and of records that were acknowledged.
        trace: a line for each callback of the user's processes; empty unless it was asked for.
        page: the file of the page; empty if none was asked for.
    """

    seed: int
    problems: list[Problem] = msgspec.field(default_factory=list)
    notes: tuple[str, ...] = ()
    began_ms: float = 0.0
    virtual_s: float = 0.0
    injected: tuple[int, ...] = ()
    faults: tuple[str, ...] = ()
    missed: tuple[str, ...] = ()
    crash_point: str = ""
    places: tuple[tuple[int, str], ...] = ()
    story: tuple[str, ...] = ()
    left_out: int = 0
    log_lines: tuple[str, ...] = ()
    digest: str = ""
    callbacks: int = 0
    records: int = 0
    sent: int = 0
    acknowledged: int = 0
    trace: tuple[str, ...] = ()
    page: str = ""

    @property
    def has_passed(self) -> bool:
        return not self.problems
