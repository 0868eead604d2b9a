"""Plan files: the plan of a seed as JSON, so that a shrunk one can be kept and replayed.

A file also names what its run violated and the commit of the software, as another commit may not violate it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from understudy.clusters.clients.assignors.protocol import PROTOCOLS
from understudy.clusters.nearest_word import did_you_mean
from understudy.controller.points import POINTS
from understudy.foundation.eventlog.fences import SWITCHES
from understudy.trials.seeds.client_load import PARTS, READ_TOPICS
from understudy.trials.seeds.faults import KINDS as FAULTS
from understudy.trials.seeds.faults import Fault, Schedule
from understudy.trials.seeds.seed_groups import PlannedMember
from understudy.trials.seeds.seed_plans import SeedPlan
from understudy.trials.seeds.workload import KINDS as ACTIONS
from understudy.trials.seeds.workload import ClientAction

SCHEMA = "understudy-seed-plan/v1"
_AT_POINTS = ("point-pause", "point-crash")


class PlanFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The contents of a plan file.

    Attributes:
        schema: the version of the format.
        violates: the id of the invariant that the run violated, or the kind of its problem.
        commit: the commit of the software that ran it; empty if it was not known.
    """

    schema: str
    violates: str
    commit: str
    plan: SeedPlan


class BadSeedPlan(Exception):
    """A plan file cannot be used. The message names the file, the value, and the values that are expected."""


def write_plan(file: Path, plan: SeedPlan, *, violates: str, commit: str) -> None:
    """Write a plan file. Raises OSError."""
    document = PlanFile(schema=SCHEMA, violates=violates, commit=commit, plan=plan)
    file.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n")


def read_plan(file: Path) -> PlanFile:
    """Read and check a plan file.

    Raises:
        BadSeedPlan: it cannot be read, is no plan file, or has a value that no plan can have.
    """
    try:
        document = msgspec.json.decode(file.read_bytes())
    except OSError as error:
        raise BadSeedPlan(f"{file}: {error.strerror or error}; give a plan.json that `understudy hunt` wrote") from None
    except msgspec.DecodeError as error:
        raise BadSeedPlan(f"{file}: it is not JSON: {error}") from None
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA:
        raise BadSeedPlan(f"{file}: its schema is {schema!r}; expected {SCHEMA!r}, as `understudy hunt` writes it")
    try:
        read = msgspec.convert(document, PlanFile)
    except msgspec.ValidationError as error:
        raise BadSeedPlan(f"{file}: {error}") from None
    wrong = next(chain(_unknown_keys(document["plan"]), _wrong_values(read.plan)), None)
    if wrong is not None:
        raise BadSeedPlan(f"{file}: {wrong}")
    return read


def _unknown_keys(plan: dict[str, Any]) -> Iterator[str]:
    """Describe the unknown keys of the parts that are dataclasses, which the decoder ignores."""
    schedule = plan["schedule"]
    parts: list[tuple[str, dict[str, Any], type[Schedule | Fault | ClientAction]]] = [("schedule", schedule, Schedule)]
    parts += [(f"faults[{number}]", fault, Fault) for number, fault in enumerate(schedule["faults"])]
    parts += [(f"actions[{number}]", action, ClientAction) for number, action in enumerate(plan["actions"])]
    for where, document, kind in parts:
        known = [field.name for field in dataclasses.fields(kind)]
        yield from (_unknown(where, "key", key, known) for key in document if key not in known)


def _wrong_values(plan: SeedPlan) -> Iterator[str]:
    schedule = plan.schedule
    yield from (_unknown("load", "part of the load", part, PARTS) for part in plan.load if part not in PARTS)
    yield from (
        _unknown("fences_off", "fence or fix", name, SWITCHES) for name in plan.fences_off if name not in SWITCHES
    )
    if plan.absent is not None and plan.absent > plan.brokers:
        yield f"absent is {plan.absent}; expected null or one of the brokers 1 to {plan.brokers}"
    if not 0 <= schedule.healed_at_ms <= plan.seconds * 1000:
        yield f"healed_at_ms is {schedule.healed_at_ms}; expected 0 to the {plan.seconds} seconds of the run"
    if not 0 <= schedule.unknown_probability <= 1:
        yield f"unknown_probability is {schedule.unknown_probability}; expected 0 to 1"
    parts: list[tuple[str, Fault | ClientAction, Collection[str]]]
    parts = [(f"faults[{number}]", fault, FAULTS) for number, fault in enumerate(schedule.faults)]
    parts += [(f"actions[{number}]", action, ACTIONS) for number, action in enumerate(plan.actions)]
    for where, part, kinds in parts:
        if part.kind not in kinds:
            yield _unknown(where, "kind", part.kind, sorted(kinds))
        if not 0 <= part.at_ms <= schedule.healed_at_ms:
            yield f"{where}: at_ms is {part.at_ms}; expected 0 to {schedule.healed_at_ms}, when all is healed"
    for number, fault in enumerate(schedule.faults):
        yield from (f"faults[{number}]: {wrong}" for wrong in _wrong_values_of_fault(fault, plan))
    for number, member in enumerate(plan.members):
        yield from (f"members[{number}]: {wrong}" for wrong in _wrong_values_of_member(member, plan))
    names = [member.name for member in plan.members]
    yield from (f"members: {name!r} is there twice; each needs a name of its own" for name in _repeated(names))


def _wrong_values_of_fault(fault: Fault, plan: SeedPlan) -> Iterator[str]:
    if not 0 <= fault.target <= plan.brokers:
        yield f"target is {fault.target}; expected a broker from 1 to {plan.brokers}, or 0 for the controller"
    if fault.lasts_ms < 0:
        yield f"lasts_ms is {fault.lasts_ms}; expected 0 or more"
    if fault.kind in _AT_POINTS and fault.detail not in POINTS:
        yield _unknown("detail", "point", fault.detail, POINTS)
    if fault.kind == "step-clock" and not fault.detail.removeprefix("-").isdecimal():
        yield f"detail is {fault.detail!r}; expected by how many ms the clock steps"


def _wrong_values_of_member(member: PlannedMember, plan: SeedPlan) -> Iterator[str]:
    healed_at_ms = plan.schedule.healed_at_ms
    yield from (
        _unknown("assignors", "assignor", name, PROTOCOLS) for name in member.assignors if name not in PROTOCOLS
    )
    if len({PROTOCOLS[name].is_cooperative for name in member.assignors if name in PROTOCOLS}) > 1:
        yield f"assignors are {', '.join(member.assignors)}; expected cooperative ones only, or none"
    yield from (_unknown("topics", "topic", name, READ_TOPICS) for name in member.topics if name not in READ_TOPICS)
    if member.joins_at_ms > healed_at_ms:
        yield f"joins_at_ms is {member.joins_at_ms}; expected 0 to {healed_at_ms}, when all is healed"
    if member.ends_at_ms is not None and not member.joins_at_ms <= member.ends_at_ms <= healed_at_ms:
        yield f"ends_at_ms is {member.ends_at_ms}; expected null or {member.joins_at_ms} to {healed_at_ms}"


def _repeated(names: list[str]) -> list[str]:
    return [name for place, name in enumerate(names) if name in names[:place]]


def _unknown(where: str, what: str, word: str, known: Iterable[str]) -> str:
    names = list(known)
    expected = did_you_mean(word, names) or f"; expected one of {', '.join(names)}"
    return f"{where}: {word!r} is no {what}{expected}"
