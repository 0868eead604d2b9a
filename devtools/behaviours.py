"""`python -m devtools.behaviours` prints every behaviour of docs/reference/behaviours.md with the tests that name it.

An id is accounted for if a collected test names it (`@pytest.mark.spec`), if the page lists it as waiting, or if
docs/inside/fidelity.md explains what becomes of it. Exits 1 if an id is none of the three, or if a test names an id
that does not exist.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
_ID = re.compile(r"\b[A-Z]{2,3}-\d+\b")
_PAGE = ROOT / "docs/reference/behaviours.md"
_ITEM = re.compile(r"^- \*\*([A-Z]{2,3}-\d+)\*\* \((\w+)\) (.+(?:\n  .+)*)", re.MULTILINE)
"""An item of a list: the id, what a test of it needs, and a sentence that may continue in indented lines."""


class Behaviour(NamedTuple):
    """One sentence of docs/reference/behaviours.md. `level` is what a test of it needs: `values`, `wire` …"""

    id: str
    text: str
    level: str


def behaviours() -> list[Behaviour]:
    return [Behaviour(name, " ".join(text.split()), level) for name, level, text in _ITEM.findall(_PAGE.read_text())]


def waiting_ids() -> frozenset[str]:
    found = re.search(r"\*\*Waiting\*\*(.+\n)+", _PAGE.read_text())
    assert found is not None, "docs/reference/behaviours.md says what waits"
    return frozenset(_ID.findall(found.group()))


def explained() -> frozenset[str]:
    """The ids that docs/inside/fidelity.md names."""
    return frozenset(_ID.findall((ROOT / "docs/inside/fidelity.md").read_text()))


@dataclass
class Marks:
    """A pytest plugin: the tests by the ids they name."""

    tests: dict[str, list[str]] = field(default_factory=dict)

    def pytest_collection_modifyitems(self, items: Iterable[pytest.Item]) -> None:
        for item in items:
            name = item.nodeid.partition("[")[0]
            for behaviour in (argument for mark in item.iter_markers("spec") for argument in mark.args):
                named = self.tests.setdefault(behaviour, [])
                if name not in named:
                    named.append(name)


def problems(
    known: Iterable[Behaviour],
    tests: Mapping[str, Collection[str]],
    waiting: Collection[str],
    fidelity: Collection[str],
) -> list[str]:
    """Ids that are not accounted for, and ids that do not exist."""
    ids = [behaviour.id for behaviour in known]
    bare = [asked for asked in ids if not tests.get(asked) and asked not in waiting and asked not in fidelity]
    families = {_family(behaviour) for behaviour in ids}
    # Tests also name ids of docs/reference/invariants.md, which have families of their own.
    unknown = sorted(named for named in {*tests, *waiting} - {*ids} if _family(named) in families)
    return [
        *(
            f"{asked}: no test names it, it is not waiting, and docs/inside/fidelity.md does not explain it"
            for asked in bare
        ),
        *(f"{named}: named, but not in docs/reference/behaviours.md" for named in unknown),
    ]


def _family(behaviour: str) -> str:
    return behaviour.partition("-")[0]


def table(
    known: Iterable[Behaviour],
    tests: Mapping[str, Collection[str]],
    waiting: Collection[str],
    fidelity: Collection[str],
) -> Iterable[str]:
    for behaviour, text, level in known:
        named = list(tests.get(behaviour, ()))
        notes = [
            *([f"{len(named)} tests, {named[0]}" if len(named) > 1 else named[0]] if named else []),
            *(["waits"] if behaviour in waiting else []),
            *(["docs/inside/fidelity.md"] if behaviour in fidelity else []),
        ]
        yield f"{behaviour:7}{level:11}{text[:60]:62}{'; '.join(notes) or '-'}"


def main() -> int:
    marks = Marks()
    collected = pytest.main(
        ["--collect-only", "-m", "", "-qqq", "-p", "no:randomly", "-p", "no:cacheprovider", str(ROOT / "tests")],
        plugins=[marks],
    )
    if collected != pytest.ExitCode.OK:
        return int(collected)
    known, waiting, fidelity = behaviours(), waiting_ids(), explained()
    print("\n".join(table(known, marks.tests, waiting, fidelity)))
    tested = sum(bool(marks.tests.get(behaviour.id)) for behaviour in known)
    rest = [behaviour.id for behaviour in known if not marks.tests.get(behaviour.id)]
    waits = sum(behaviour in waiting for behaviour in rest)
    listed = sum(behaviour in fidelity and behaviour not in waiting for behaviour in rest)
    print(
        f"\n{len(known)} behaviours: {tested} with tests, {waits} wait, {listed} explained in docs/inside/fidelity.md"
    )
    wrong = problems(known, marks.tests, waiting, fidelity)
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
