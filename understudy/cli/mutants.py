"""`understudy mutants`: run seeds without each fence and each historic fix, to see which check notices, and how soon.

The exit code is 0 if every switch was searched for, whether or not a seed has found it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from understudy.cli.arguments import BadInput, Failed, count, reported_as
from understudy.cli.progress import Progress
from understudy.clusters.problems import one_of
from understudy.foundation.eventlog.fences import SWITCHES
from understudy.trials.experiments.language.library import find, names
from understudy.trials.experiments.language.reading import read_experiment_file
from understudy.trials.hunt.mutants import SearchResult, search_all

BEGIN = "<!-- the table of `understudy mutants` begins -->"
END = "<!-- the table of `understudy mutants` ends -->"
HEAD = ("| switch | hits | random search | noticed by | experiment |", "|---|---|---|---|---|")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--switch", action="append", metavar="NAME", help="only this fence or fix; may be repeated (default all)"
    )
    parser.add_argument("--seeds", type=count, default=100, metavar="N", help="maximum number of seeds for each")
    parser.add_argument("--from", type=int, default=0, dest="first", metavar="SEED", help="the first seed")
    parser.add_argument("--seconds", type=count, default=30, metavar="N", help="simulated seconds per seed")
    parser.add_argument("--workers", type=count, default=1, metavar="N", help="processes to work on")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the results into the table of this page")
    parser.add_argument(
        "--experiments-only",
        action="store_true",
        help="search for nothing: update the experiments in the table of --write FILE",
    )


def run(options: argparse.Namespace) -> int:
    if options.experiments_only:
        if options.write is None:
            raise BadInput("--experiments-only needs --write PAGE, the page whose table is to be updated")
        _write(options.write, _read(options.write))
        return 0
    names = _switches(options.switch)
    page = None if options.write is None else _read(options.write)
    seeds = range(options.first, options.first + options.seeds)
    results = []
    with Progress(len(names), "switches") as progress:
        for result in search_all(names, seeds, options.seconds, workers=options.workers):
            results.append(result)
            progress.wipe()
            print(result, flush=True)
            progress.step(failed=not result.is_found)
            if page is not None:
                page = with_rows(page, {result.switch.value: row(result)})
                _write(options.write, page)
    found = sum(result.is_found for result in results)
    print(f"{found} of {len(results)} were noticed within {options.seeds} seeds of {options.seconds} s")
    return 0


def _switches(chosen: Sequence[str] | None) -> tuple[str, ...]:
    for name in chosen or ():
        if name not in SWITCHES:
            raise BadInput(f"--switch {name}: {one_of(name, tuple(SWITCHES), 'fence or fix')}")
    return tuple(dict.fromkeys(chosen)) if chosen else tuple(SWITCHES)


# ------------------------------------------------------------------ the table


def row(result: SearchResult) -> str:
    """Return the row of a switch, without its last cell: that follows from the experiments, not from the search."""
    if result.seed is None:
        search, noticed = f"not by {result.seeds} seeds", ""
    elif not result.holds_when_on:
        search, noticed = f"seed {result.seed} also fails with it", ""
    else:
        search, noticed = f"seed {result.seed}, number {result.seeds}", ", ".join(result.checks)
    name = result.switch.value
    return f"| `{name}` | {result.hits:,} | {search} | {noticed} |"


def experiments() -> dict[str, str]:
    """Return the experiments of Understudy that switch each fence or fix off, by its name, with what each expects to
    break.

    A switch that no experiment names is left out.
    """
    found: dict[str, list[str]] = {}
    for each in names():
        for defect_name, defect in read_experiment_file(find(each)).defects.items():
            link = f"[{each}](../../understudy/trials/experiments/scenarios/{each}.yaml) ({', '.join(defect.breaks)})"
            for name in dict.fromkeys(part.strip() for part in defect_name.split("+")):
                found.setdefault(name, []).append(link)
    return {name: ", ".join(links) for name, links in found.items()}


def with_rows(page: str, rows: Mapping[str, str]) -> str:
    """Return a page with these rows, by switch, in its table; the others stay, with the experiments of today.

    Raises:
        BadInput: the page has no place for the table.
    """
    before, begin, rest = page.partition(BEGIN)
    table, end, after = rest.partition(END)
    if not begin or not end:
        raise BadInput(f"the page has no lines {BEGIN!r} and {END!r} to write the table between")
    known = {**dict(_rows(table)), **rows}
    links = experiments()
    lines = (*HEAD, *(f"{known[name]} {links.get(name, '')} |" for name in SWITCHES if name in known))
    return f"{before}{begin}\n\n" + "\n".join(lines) + f"\n\n{end}{after}"


def _rows(table: str) -> Iterator[tuple[str, str]]:
    for line in table.splitlines():
        if line.startswith("| `"):
            yield line.split("`")[1], "|".join(line.split("|")[:5]) + "|"


def _read(path: Path) -> str:
    with reported_as(Failed, OSError):
        return with_rows(path.read_text(encoding="utf-8"), {})


def _write(path: Path, page: str) -> None:
    with reported_as(Failed, OSError):
        path.write_text(page, encoding="utf-8")
