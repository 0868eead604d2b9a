"""Writes the faults of some minutes of a soak as an experiment file, with the brokers that they were done to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from understudy.clusters.values import written_duration
from understudy.trials.soak.plan import ZOOKEEPER_TARGET
from understudy.trials.soak.totals import ClusterShape, FaultRecord

BEGIN_MS: Final = 2_000.0
"""Time for which the load of the experiment runs before the minutes begin."""
_SETTLE: Final = "60s"


def of_minutes(faults: Iterable[FaultRecord], first: int, last: int) -> list[FaultRecord]:
    """Return the faults of the minutes from `first` to `last`. If a minute was begun twice, its later faults count."""
    found = [fault for fault in faults if first <= fault.minute <= last]
    newest = {fault.minute: fault.session for fault in found}
    return [fault for fault in found if fault.session == newest[fault.minute]]


def experiment_file(
    shape: ClusterShape, faults: Sequence[FaultRecord], *, first: int, last: int, seed: int, reason: str
) -> str:
    """Return the text of an experiment that does the faults of the minutes from `first` to `last` again.

    Args:
        reason: why it was written, in one line.
    """
    minutes = f"minute {first}" if first == last else f"minutes {first} to {last}"
    name = f"soak-minute-{last:03d}"
    topic = (
        f"{{name: {shape.topic}, partitions: {shape.partitions}, replicas: {shape.replicas}, "
        f"min_insync: {shape.min_insync}}}"
    )
    steps = [_step(fault, first) for fault in faults]
    lines = [
        f"# The faults of {minutes} of a soak, at their times and on the brokers that they were done to. Other brokers",
        "# may be controller or leader here than in the soak: a comment says what each was.",
        "schema: understudy/v1",
        f"name: {name}",
        f"title: {minutes[0].upper()}{minutes[1:]} of a soak",
        f"question: {_quoted(reason)}",
        "engines: [sim, real]",
        f"seed: {seed}",
        "cluster:",
        f"  brokers: {shape.brokers}",
        *([f"  racks: [{', '.join(shape.racks)}]"] if shape.racks else []),
        f"  session: {written_duration(float(shape.session_ms))}",
        f"  topics: [{topic}]",
        "load: {producers: 2, consumers: 1, rate: 20, acks: all}",
        *(["steps:", *steps] if steps else ["steps: []"]),
        f"lasts: {written_duration(BEGIN_MS + 60_000.0 * (last - first + 1))}",
        "expect:",
        "  always: [all-safety]",
        f"  within: {{L1: {_SETTLE}, L2: {_SETTLE}, L3: {_SETTLE}}}",
    ]
    return "\n".join(lines) + "\n"


def _step(fault: FaultRecord, first: int) -> str:
    at_ms = round(BEGIN_MS + (fault.minute - first) * 60_000.0 + fault.at_ms)
    action, target = fault.verb, fault.target
    if target == ZOOKEEPER_TARGET:
        action = f"{fault.verb}-zookeeper"
    elif fault.verb == "depose":
        target = "controller"
    lasts = "" if fault.lasts_ms is None else f", for: {round(fault.lasts_ms)}ms"
    was = [f"broker {fault.target}"] if target != fault.target else []
    was += [f"the {fault.role}"] if fault.role and fault.role != target else []
    comment = f"  # {fault.kind}: {', '.join(was)}" if was else f"  # {fault.kind}"
    return f"  - {{at: {at_ms}ms, {action}: {target}{lasts}}}{comment}"


def _quoted(text: str) -> str:
    """A YAML string in double quotes, on one line."""
    safe = " ".join(text.split()).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{safe[:400]}"'
