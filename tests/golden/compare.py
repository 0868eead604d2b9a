"""Compares two recordings of a scenario by the five rules of `README.md`, and separates deliberate differences."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from pathlib import Path
from typing import NamedTuple

from tests.golden.choices import without_choices_of_tools
from tests.golden.recording import Answered, Json, Step, Write, normalise

NOT_PERFORMED = "not performed"


class Difference(NamedTuple):
    scenario: str
    step: str
    what: str
    """The part that differs, as `differences.toml` names it."""
    detail: str = ""
    """Kafka's value and ours."""

    def __str__(self) -> str:
        return f"{self.scenario} / {self.step} / {self.what}\n    {self.detail}"


class Listed(NamedTuple):
    """A deliberate difference; `*` stands for every scenario or step."""

    scenario: str
    step: str
    what: str
    why: str

    def covers(self, difference: Difference) -> bool:
        return all(mine in ("*", its) for mine, its in zip(self[:3], difference[:3], strict=True))


def compare(kafka: Json, ours: Json, *, tools_choose: bool = False) -> list[Difference]:
    """All differences between two recordings of one scenario, in order of steps; steps that ours lacks are differences.

    `tools_choose`: tools made both recordings, so the brokers that they chose are no difference (`choices.py`).
    """
    scenario: str = kafka["scenario"]
    if tools_choose:
        kafka, ours = without_choices_of_tools(kafka), without_choices_of_tools(ours)
    theirs, mine = normalise(kafka), normalise(ours)
    if [step.name for step in theirs][: len(mine)] != [step.name for step in mine]:
        detail = f"{[step.name for step in theirs]} against {[step.name for step in mine]}"
        return [Difference(scenario, "*", "the steps themselves", detail)]
    found = [
        Difference(scenario, ours_at.name, what, detail)
        for kafka_at, ours_at in zip(theirs, mine, strict=False)
        for what, detail in _step_differences(kafka_at, ours_at)
    ]
    return found + [Difference(scenario, step.name, NOT_PERFORMED) for step in theirs[len(mine) :]]


def listed(path: Path) -> list[Listed]:
    return [Listed(**entry) for entry in tomllib.loads(path.read_text()).get("difference", [])]


def unlisted_and_vanished(
    found: Iterable[Difference], deliberate: Iterable[Listed]
) -> tuple[list[Difference], list[Listed]]:
    """The differences that are not listed, and the listed ones that did not occur."""
    found, deliberate = list(found), list(deliberate)
    unlisted = [difference for difference in found if not any(entry.covers(difference) for entry in deliberate)]
    vanished = [entry for entry in deliberate if not any(entry.covers(difference) for difference in found)]
    return unlisted, vanished


_Found = Iterator[tuple[str, str]]


def _step_differences(kafka: Step, ours: Step) -> _Found:
    if kafka.rc is not None and bool(kafka.rc) != bool(ours.rc):
        yield "outcome", f"{kafka.rc} against {ours.rc}"
    if kafka.refused is not None and kafka.refused != ours.refused:
        yield "refusal", f"{kafka.refused} against {ours.refused}"
    yield from _trees(kafka.tree, ours.tree)
    yield from _writes(kafka.writes, ours.writes)
    for broker in sorted({*kafka.requests, *ours.requests}):
        theirs, mine = kafka.requests.get(broker, []), ours.requests.get(broker, [])
        if broker in kafka.leaving and broker in ours.leaving:
            # How many requests a stopping broker still answers depends on timing; that it answers the first does not,
            # if the step begins with its controlled shutdown.
            shared = max(min(len(theirs), len(mine)), min(len(theirs), 1))
            theirs, mine = theirs[:shared], mine[:shared]
        yield from _requests(broker, theirs, mine)
    for proposal in sorted(kafka.proposals ^ ours.proposals):
        yield "AlterPartition", f"{'only Kafka' if proposal in kafka.proposals else 'only we'}: {proposal}"
    if sorted(kafka.shutdowns) != sorted(ours.shutdowns):
        yield "ControlledShutdown", f"{kafka.shutdowns} against {ours.shutdowns}"
    for early in ours.too_early:
        yield "phases", early


def _trees(kafka: dict[str, str], ours: dict[str, str]) -> _Found:
    for path in sorted({*kafka, *ours}):
        if kafka.get(path) != ours.get(path):
            yield f"tree {path}", f"{kafka.get(path, 'absent')} against {ours.get(path, 'absent')}"


def _writes(kafka: dict[str, list[Write]], ours: dict[str, list[Write]]) -> _Found:
    for path in sorted({*kafka, *ours}):
        theirs = [write._replace(fence=None, zxid=None) for write in kafka.get(path, [])]
        mine = [write._replace(fence=None, zxid=None) for write in ours.get(path, [])]
        if theirs != mine:
            yield f"writes of {path}", f"{_shown(theirs)} against {_shown(mine)}"
            continue
        for their, my in zip(kafka.get(path, []), ours.get(path, []), strict=True):
            if their.fence != my.fence:
                yield f"fence of {path}", f"{their.kind} with a check at {their.fence} against {my.fence}"


def _shown(writes: list[Write]) -> str:
    return "; ".join(f"{write.kind} {write.data} v{write.version} by {write.role}" for write in writes) or "nothing"


def _requests(broker: int, kafka: list[Answered], ours: list[Answered]) -> _Found:
    theirs, mine = [_key(request) for request in kafka], [_key(request) for request in ours]
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, theirs, mine, autojunk=False).get_opcodes():
        if tag == "equal" or (tag == "replace" and [r.kind for r in kafka[i1:i2]] == [r.kind for r in ours[j1:j2]]):
            for their, my in zip(kafka[i1:i2], ours[j1:j2], strict=True):
                yield from _fields(broker, their, my)
        else:
            for request in kafka[i1:i2]:
                yield f"to broker {broker}: {request.kind} missing", _short(request)
            for request in ours[j1:j2]:
                yield f"to broker {broker}: {request.kind} too many", _short(request)


def _fields(broker: int, kafka: Answered, ours: Answered) -> _Found:
    where = f"to broker {broker}: {kafka.kind}"
    theirs, mine = json.loads(kafka.header), json.loads(ours.header)
    for name in sorted({*theirs, *mine}):
        if theirs.get(name) != mine.get(name):
            yield f"{where}.{name}", f"{theirs.get(name)} against {mine.get(name)}"
    if kafka.live_leaders != ours.live_leaders:
        yield f"{where}.liveLeaders", f"{kafka.live_leaders} against {ours.live_leaders}"
    for partition in sorted({*kafka.partitions, *ours.partitions}):
        if kafka.partitions.get(partition) != ours.partitions.get(partition):
            name = f"{partition[0]}-{partition[1]}"
            yield f"{where} of {name}", f"{kafka.partitions.get(partition)} against {ours.partitions.get(partition)}"


def _key(request: Answered) -> tuple[str, str, tuple[tuple[str, int], ...]]:
    return request.kind, request.header, tuple(request.partitions)


def _short(request: Answered) -> str:
    return f"{request.header} {request.partitions}"
