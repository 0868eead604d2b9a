"""Writes docs/reference/software.md from what runs have kept in seen.json."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from devtools.pages.text import bullet
from devtools.software.judge import Seen
from devtools.software.programs import NOT_SERVED, PROGRAMS

ROOT: Final = Path(__file__).parents[2]
KEPT: Final = Path(__file__).parent / "seen.json"
PAGE: Final = ROOT / "docs" / "reference" / "software.md"

_HEAD: Final = """\
# Software seen working

Each program below, which was written elsewhere, ran against three of our brokers while brokers were killed, and copied
one topic to another. `make software` runs all and writes this page; the few lines that start each program are in
`devtools/software/`.

## How to read it

An idempotent producer with acks=all sends 20 records a second to the four partitions of a first topic; all topics have
three replicas and `min.insync.replicas=2`. When the program has copied 40 records, brokers are killed one after the
other and started again: the leader of a partition of the first topic, the leader of one of the second topic, the
controller, and the coordinator of all groups if the program has a group. The next one is killed when the cluster has
settled and a record has been copied that was sent later.

*Passed* means that the program continued each time, and that every record that the first topic had acknowledged until
then was in the second topic at the end; records on their way at that moment are only counted as sent. *Twice* counts
the records that are there more than once, as a program that copies at least once may do. *Longest pause* is the longest
time without a new record in the second topic; the brokers' ZooKeeper session timeout is 4 s. Each row is one run on a
busy machine: compare verdicts, not milliseconds.

"""


class Kept(msgspec.Struct):
    """The last run of each program.

    Attributes:
        seen: by program.
        not_run: by program, why it could not be built.
    """

    seen: dict[str, Seen] = msgspec.field(default_factory=dict)
    not_run: dict[str, str] = msgspec.field(default_factory=dict)


def load(path: Path = KEPT) -> Kept:
    """Read what runs have kept; nothing if there is no file."""
    return msgspec.json.decode(path.read_bytes(), type=Kept) if path.exists() else Kept()


def store(kept: Kept, path: Path = KEPT) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(kept, order="deterministic"), indent=1) + b"\n")


def page(kept: Kept) -> str:
    """The text of docs/reference/software.md."""
    return "\n".join([_HEAD, *_table(kept), *_what_ran(kept), *_notes(kept), *_failed(kept), *_not_run(kept)])


def _table(kept: Kept) -> Iterator[str]:
    ran = _in_order(kept.seen)
    passed = sum(seen.passed for seen in ran.values())
    acknowledged = sum(seen.acknowledged for seen in ran.values())
    lost = sum(seen.lost for seen in ran.values()) or "none"
    yield f"{passed} of {len(ran)} programs passed. Of {acknowledged:,} acknowledged records {lost} were lost."
    yield ""
    yield "| program | version | verdict | sent | acknowledged | lost | twice | longest pause |"
    yield "|---" * 8 + "|"
    for name, seen in ran.items():
        verdict = "passed" if seen.passed else "**failed**"
        pause = "–" if seen.pause_ms is None else f"{seen.pause_ms:,} ms"
        numbers = f"{seen.sent:,} | {seen.acknowledged:,} | {seen.lost} | {seen.twice} | {pause}"
        yield f"| {name} | {seen.version} | {verdict} | {numbers} |"
    yield ""


def _what_ran(kept: Kept) -> Iterator[str]:
    yield "## What ran, and what was killed\n"
    yield "| program | how it copies | killed |"
    yield "|---|---|---|"
    for name, seen in _in_order(kept.seen).items():
        yield f"| {name} | {PROGRAMS[name].does} | {', '.join(seen.killed) or '–'} |"
    yield ""


def _notes(kept: Kept) -> Iterator[str]:
    notes = {name: PROGRAMS[name].note for name in _in_order(kept.seen) if PROGRAMS[name].note}
    if notes:
        yield from (bullet(f"{name}: {note}") for name, note in notes.items())
        yield ""


def _failed(kept: Kept) -> Iterator[str]:
    failed = {name: seen for name, seen in _in_order(kept.seen).items() if not seen.passed}
    if failed:
        yield "## What failed\n"
        yield from (bullet(f"{name}: {reason}") for name, seen in failed.items() for reason in seen.reasons)
        yield ""


def _not_run(kept: Kept) -> Iterator[str]:
    reasons = {name: kept.not_run.get(name, "it was not run") for name in PROGRAMS if name not in kept.seen}
    yield "## What was not run\n"
    yield from (bullet(f"{name}: {reason.splitlines()[0]}.") for name, reason in {**reasons, **NOT_SERVED}.items())
    yield ""


def _in_order(seen: Mapping[str, Seen]) -> dict[str, Seen]:
    return {name: seen[name] for name in PROGRAMS if name in seen}
