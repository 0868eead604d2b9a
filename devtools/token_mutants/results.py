"""The results of all runs, in results.jsonl, and the reasons of survivors, in reasons.yaml; both beside this file."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from devtools.token_mutants.sites import Mutant, draw, enum_members, files, sites_of
from devtools.token_mutants.workshop import Verdict

HERE = Path(__file__).parent
RESULTS = HERE / "results.jsonl"
REASONS = HERE / "reasons.yaml"

Key = tuple[str, str, str, str, int]


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one mutant."""

    mutant: Mutant
    verdict: Verdict

    @property
    def has_survived(self) -> bool:
        return self.verdict.step == "survived"


def read_results(path: Path = RESULTS) -> dict[Key, Result]:
    """The last result of each mutant, in the order of the file."""
    found: dict[Key, Result] = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        fields = json.loads(line)
        verdict = Verdict(fields.pop("step"), fields.pop("by"))
        result = Result(Mutant(**fields), verdict)
        found[result.mutant.key] = result
    return found


def add_result(result: Result, path: Path = RESULTS) -> None:
    with path.open("a") as file:
        file.write(_line(result))


def keep_results(results: Iterable[Result], path: Path = RESULTS) -> None:
    """Write the file anew, with these results only, in the order of the code."""
    ordered = sorted(results, key=lambda each: (each.mutant.file, each.mutant.line, each.mutant.key))
    path.write_text("".join(map(_line, ordered)))


def _line(result: Result) -> str:
    return json.dumps({**asdict(result.mutant), **asdict(result.verdict)}, ensure_ascii=False) + "\n"


def current(results: Iterable[Result], root: Path) -> list[Result]:
    """The results whose mutant can still be made, with today's numbers of lines; the code of the others has changed."""
    members = enum_members(root)
    known = {
        mutant.key: mutant
        for path in files(root)
        for site in sites_of(path, (root / path).read_text(), members)
        for mutant in site
    }
    return [Result(known[each.mutant.key], each.verdict) for each in results if each.mutant.key in known]


def read_reasons(path: Path = REASONS) -> dict[Key, str]:
    """Why no test can notice a survivor, by its key.

    Raises:
        ValueError: an entry lacks a field, or has one that is not known.
    """
    found: dict[Key, str] = {}
    for entry in yaml.safe_load(path.read_text()) or [] if path.exists() else []:
        fields: dict[str, Any] = {"function": "", "nth": 1, **entry}
        if set(fields) != {"file", "function", "before", "after", "nth", "reason"} or not fields["reason"].strip():
            raise ValueError(
                f"{path.name}: an entry has the keys {sorted(entry)}; file, function, before, after and reason are "
                f"needed, and nth if the function has the line more than once"
            )
        key = (fields["file"], fields["function"], fields["before"], fields["after"], fields["nth"])
        found[key] = " ".join(fields["reason"].split())
    return found


def drawn(root: Path, count: int, seed: int, only: str | None) -> list[Mutant]:
    """The first `count` mutants that a seed draws."""
    return [mutant for _, mutant in zip(range(count), draw(root, seed, only), strict=False)]
