"""docs/inside/token-mutants.md: how many single-token mutants were noticed, by what, and why the survivors cannot
be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from devtools.pages.source import DOCS
from devtools.token_mutants.results import Key, Result
from devtools.token_mutants.sites import ROOMS

PAGE = DOCS / "inside" / "token-mutants.md"
NO_REASON = "**no reason yet**"

_HEAD = """# Single-token mutants

This page is made by `make token-mutants` from `results.jsonl` and `reasons.yaml` in `devtools/token_mutants/`. It says
what became of changes of one token each in `controller/` and `brokers/replication/` that a tool has drawn: comparisons,
`and` / `or`, `not`, `in`, `is`, signs, numbers by one, `True` / `False`, `min` / `max`, `any` / `all`, `break` /
`continue`, members of enumerations. A mutant is judged by the tests of its room that call its function, then by the
tests of `tests/stories`, `tests/brokers/apis` and `tests/simulation`, then by seeds of the simulator with every check
on. A survivor has a reason why no test can notice it; otherwise it gets a test, and is killed in the next run (`make
token-mutants ARGS=--again`). Numbers of lines are of the time of the run.

"""


def page(results: Iterable[Result], reasons: Mapping[Key, str]) -> str:
    found = sorted(results, key=lambda each: (each.mutant.file, each.mutant.line, each.mutant.key))
    return f"{_HEAD}{_counts(found)}\n## Survivors\n\n{_survivors(found, reasons)}"


def without_reason(results: Iterable[Result], reasons: Mapping[Key, str]) -> list[Result]:
    return [each for each in results if each.has_survived and each.mutant.key not in reasons]


def _counts(results: Sequence[Result]) -> str:
    lines = ["| room | mutants | killed by tests | killed by seeds | survived |", "|---|---|---|---|---|"]
    for room in (*ROOMS, None):
        steps = Counter(each.verdict.step for each in results if room in (None, each.mutant.room))
        name = f"`{room}/`" if room else "both"
        lines.append(f"| {name} | {steps.total()} | {steps['tests']} | {steps['seeds']} | {steps['survived']} |")
    return "\n".join(lines) + "\n"


def _survivors(results: Sequence[Result], reasons: Mapping[Key, str]) -> str:
    lines = ["| where | change | in | reason |", "|---|---|---|---|"]
    for each in results:
        if each.has_survived:
            mutant, reason = each.mutant, reasons.get(each.mutant.key, NO_REASON)
            cells = (f"{mutant.file}:{mutant.line}", _code(mutant.change), _code(mutant.after), _cell(reason))
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n" if len(lines) > 2 else "None.\n"


def _code(text: str) -> str:
    return f"`{_cell(text)}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
