"""`FaultsOfTest`: the injected faults among the records of a test, for assertions and for its report."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

import msgspec

from understudy.foundation.eventlog.records import AnswerInjected, Envelope, FaultInjected, PointReached
from understudy.foundation.times import after

_FORMER_NAMES: Final = {"continue": "resume"}
"""Current names of faults, by their names in older event logs."""


class RecordedFault(msgspec.Struct, frozen=True, kw_only=True):
    """A fault in the event log, or a named point at which a broker has paused or crashed.

    Attributes:
        fault: `kill`, `pause`, `resume`, `stop`, `start`, `depose`, `isolate`, `heal`; `crash` or `pause` at a point;
            `answer` for an armed answer that was given.
        target: the broker, for example `broker-1`.
        role: the role by which the broker was chosen, for example `leader of orders-0`; empty for a broker by id.
        point: the named point; empty for other faults.
        note: for `answer`, the request and the error; empty for other faults.
        wall_ms: the time at which it was recorded, in milliseconds since 1970.
    """

    fault: str
    target: str
    role: str = ""
    point: str = ""
    note: str = ""
    wall_ms: float

    def __str__(self) -> str:
        role = f" ({self.role})" if self.role else ""
        point = f" at {self.point}" if self.point else ""
        note = f": {self.note}" if self.note else ""
        return f"{self.fault} {self.target}{role}{point}{note}"

    def matches(self, fault: str, role: str | None, broker: int | None, point: str | None) -> bool:
        """Whether this is the fault that the arguments describe; None stands for any.

        The role `leader` stands for the leader of any partition, `follower` likewise.
        """
        return (
            self.fault == fault
            and (role is None or self.role == role or self.role.startswith(f"{role} of "))
            and (broker is None or self.target == f"broker-{broker}")
            and (point is None or self.point == point)
        )


class FaultsOfTest(msgspec.Struct, frozen=True, kw_only=True):
    """The faults of one test.

    Attributes:
        begun_ms: the time at which the test began, in milliseconds since 1970.
        faults: in order of time.
    """

    begun_ms: float
    faults: tuple[RecordedFault, ...]

    def lines(self) -> list[str]:
        """Each fault in a line, with its time of day (UTC) and the time since the test began."""
        return [
            f"  {_time_of_day(fault.wall_ms)} UTC, {after(fault.wall_ms - self.begun_ms)}: {fault}"
            for fault in self.faults
        ]

    def assert_injected(self, fault: str, role: str | None, broker: int | None, point: str | None) -> None:
        """Raise AssertionError, with the recorded faults, unless one of them is as described; None stands for any."""
        if any(each.matches(fault, role, broker, point) for each in self.faults):
            return
        wanted = {"role": role, "broker": broker, "point": point}
        asked = ", ".join([repr(fault), *(f"{key}={value!r}" for key, value in wanted.items() if value is not None)])
        recorded = "\n".join(["recorded in this test:", *self.lines()]) if self.faults else "none is recorded"
        raise AssertionError(f"no fault {asked} was injected; {recorded}")


def faults_among(records: Iterable[Envelope], begun_ms: float) -> FaultsOfTest:
    """Return the faults in the records of a test that began at `begun_ms`."""
    found = (_fault(record) for record in records if record.wall_ms >= begun_ms)
    faults = sorted((fault for fault in found if fault is not None), key=lambda fault: fault.wall_ms)
    return FaultsOfTest(begun_ms=begun_ms, faults=tuple(faults))


def _fault(record: Envelope) -> RecordedFault | None:
    match record.data:
        case FaultInjected(fault=fault, target=target, role=role):
            name = _FORMER_NAMES.get(fault, fault)
            return RecordedFault(fault=name, target=target, role=role, wall_ms=record.wall_ms)
        case PointReached(point=point, action=action):  # all points are the controller's
            return RecordedFault(
                fault=action, target=record.node, role="controller", point=point, wall_ms=record.wall_ms
            )
        case AnswerInjected(api=api, error=error):
            return RecordedFault(fault="answer", target=record.node, note=f"{api} with {error}", wall_ms=record.wall_ms)
        case _:
            return None


def _time_of_day(wall_ms: float) -> str:
    return f"{time.strftime('%H:%M:%S', time.gmtime(wall_ms / 1000))}.{int(wall_ms % 1000):03}"
