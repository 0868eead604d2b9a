"""The ledger of hunts: a page with a line for each hunt, that says what was run on which commit and what was found.

The page is read back before a line is added, so that its totals always agree with its lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

_HEAD = """\
# Seeds that were run

Each line is a hunt: `understudy hunt --ledger docs/inside/seed-ledger.md` adds it when the hunt has ended. A seed is a
cluster, its faults and its clients for so many simulated seconds, judged by every check ([the
invariants](../reference/invariants.md)). [Hunting](../guides/hunting.md) says how seeds are run, shrunk and replayed.

Seeds have consumer groups and a compacted topic since `understudy/trials/seeds/seed_groups.py` exists; those up to
commit 4e560ce58264 had none. `understudy simulate --seed N --no-groups` replays them as they were.
"""
_COLUMNS = ("date", "commit", "seeds", "seconds each", "records acknowledged", "elections", "failed", "found")
_RULE = ("---", "---", "---", *["---:"] * 4, "---")
_SEEDS = re.compile(r"(\d+)\.\.(\d+)")
_TOTAL = "In all: "
NOTHING = "nothing"


class BadLedger(Exception):
    """A file is no ledger of hunts. The message names the file and the line."""


class HuntLine(NamedTuple):
    """One hunt.

    Attributes:
        date: the UTC day on which it ended, `YYYY-MM-DD`.
        commit: the commit of the software; empty if it was not known.
        first, last: the first and the last of its seeds.
        seconds: simulated seconds of each seed.
        acknowledged: number of producers' records that were acknowledged.
        failed: number of seeds that failed.
        found: what they violated, and what came of it; `nothing` if no seed failed.
    """

    date: str
    commit: str
    first: int
    last: int
    seconds: int
    acknowledged: int
    elections: int
    failed: int
    found: str

    @property
    def seeds(self) -> int:
        return self.last - self.first + 1


def read_ledger(file: Path) -> list[HuntLine]:
    """Return the lines of a ledger; none if there is no file yet.

    Raises:
        BadLedger: the file has no table of hunts, or a line that is none.
        OSError: it cannot be read.
    """
    if not file.exists():
        return []
    lines = file.read_text(encoding="utf-8").splitlines()
    head = _row(_COLUMNS)
    if head not in lines:
        raise BadLedger(f"{file}: it has no line {head!r}; give a ledger that this command wrote, or a new file")
    begin = lines.index(head) + 2
    return [_parsed(file, number, line) for number, line in enumerate(lines, 1) if number > begin and line]


def add_line(file: Path, line: HuntLine) -> None:
    """Add a hunt to a ledger, which is created if it is missing. Raises as `read_ledger`."""
    page = ledger_page([*read_ledger(file), line])
    unfinished = file.with_name(f".{file.name}.unfinished")
    unfinished.write_text(page, encoding="utf-8")
    unfinished.replace(file)


def ledger_page(hunts: Sequence[HuntLine]) -> str:
    """Return the page with these hunts."""
    seeds = sum(hunt.seeds for hunt in hunts)
    hours = sum(hunt.seeds * hunt.seconds for hunt in hunts) / 3600
    total = (
        f"{_TOTAL}{seeds:,} seeds, {hours:,.1f} simulated hours, "
        f"{sum(hunt.acknowledged for hunt in hunts):,} records acknowledged, "
        f"{sum(hunt.elections for hunt in hunts):,} elections, {sum(hunt.failed for hunt in hunts):,} failed seeds."
    )
    return "\n".join([_HEAD, total, "", *_table(hunts), ""])


def _table(hunts: Sequence[HuntLine]) -> Iterator[str]:
    yield _row(_COLUMNS)
    yield f"|{'|'.join(_RULE)}|"
    for hunt in hunts:
        amounts = (f"{amount:,}" for amount in (hunt.acknowledged, hunt.elections, hunt.failed))
        seeds = f"{hunt.first}..{hunt.last}"
        yield _row((hunt.date, hunt.commit, seeds, str(hunt.seconds), *amounts, hunt.found.replace("|", "/")))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _parsed(file: Path, number: int, line: str) -> HuntLine:
    cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
    try:
        date, commit, seeds, *amounts, found = cells
        first, last = _SEEDS.fullmatch(seeds).groups()  # type: ignore[union-attr]  # None is an AttributeError
        seconds, acknowledged, elections, failed = (int(amount.replace(",", "")) for amount in amounts)
    except (ValueError, AttributeError):
        raise BadLedger(f"{file}:{number}: {line!r} is no line of a hunt; expected {', '.join(_COLUMNS)}") from None
    return HuntLine(date, commit, int(first), int(last), seconds, acknowledged, elections, failed, found)
