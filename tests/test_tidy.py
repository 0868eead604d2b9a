"""Tests of style: lengths of files and functions, docstrings of modules, unused modules, ignored types, machine paths.

A file or function that is longer than the limit is listed in `LONG_FILES` or `LONG_FUNCTIONS` with its length, and must
not become longer. A new entry needs a comment with the reason.
"""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

from devtools.pages import source
from devtools.pages.source import PACKAGES, ROOT, module_of, parse
from understudy.cli.overview import VERBS

TYPE_CHECKED = (*PACKAGES, "tests", "benchmarks")

FILE_LINES = 550
FUNCTION_LINES = 70
LINE_COLUMNS = 120

IGNORED_TYPE = re.compile(r"#\s*type:\s*ignore")
IGNORED_TYPE_WITH_REASON = re.compile(r"#\s*type: ignore\[[a-z, -]+\]  # \S")

LONG_FILES: dict[str, int] = {}
LONG_FUNCTIONS: dict[str, int] = {}


def python_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def product_files() -> list[Path]:
    return [ROOT / name for name in source.product_files()]


def tracked_files() -> list[Path]:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listing.returncode != 0:
        return [path for path in product_files() if path.is_file()]
    return [ROOT / name for name in listing.stdout.decode().split("\0") if name and (ROOT / name).is_file()]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def functions(path: Path) -> list[tuple[str, int]]:
    """Every function with its length in lines, its docstring not counted."""
    found = []
    for node in ast.walk(parse(name_of(path))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            documented = ast.get_docstring(node, clean=False) is not None
            docstring = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
            found.append((f"{name_of(path)}:{node.name}", (node.end_lineno or 0) - node.lineno + 1 - docstring))
    return found


def too_long(lengths: dict[str, int], limit: int, known: dict[str, int]) -> dict[str, str]:
    return {
        name: f"{length} lines, may have {known.get(name, limit)}"
        for name, length in lengths.items()
        if length > known.get(name, limit)
    }


def test_files_stay_short() -> None:
    lengths = {name_of(path): len(path.read_text().splitlines()) for path in product_files()}
    assert too_long(lengths, FILE_LINES, LONG_FILES) == {}
    assert {name for name, known in LONG_FILES.items() if lengths.get(name, 0) < known} == set(), (
        "lower the listed length"
    )


def test_functions_stay_short() -> None:
    lengths = dict(function for path in product_files() for function in functions(path))
    assert too_long(lengths, FUNCTION_LINES, LONG_FUNCTIONS) == {}
    assert {name for name, known in LONG_FUNCTIONS.items() if lengths.get(name, 0) < known} == set(), (
        "lower the listed length"
    )


def test_every_module_has_a_docstring() -> None:
    undocumented = [name_of(path) for path in product_files() if not ast.get_docstring(parse(name_of(path)))]
    assert undocumented == []


def imported_names(path: Path) -> set[str]:
    """Every dotted name that the imports of a file could mean: `from a.b import c` names `a.b` and `a.b.c`."""
    names: set[str] = set()
    for node in ast.walk(parse(name_of(path))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.update({node.module, *(f"{node.module}.{alias.name}" for alias in node.names)})
    return names


@pytest.mark.parametrize("path", sorted((ROOT / "understudy" / "page").glob("**/static/*")), ids=lambda path: path.name)
def test_files_of_the_page_are_tidy(path: Path) -> None:
    """Lines and files have the limits of Python's, and no script makes markup of a text."""
    lines = path.read_text().splitlines()
    assert len(lines) <= FILE_LINES
    assert [number for number, line in enumerate(lines, 1) if len(line) > LINE_COLUMNS] == []
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", path.read_text())


def test_every_module_is_imported_or_a_command() -> None:
    """Every product module is imported by another file or runs a verb, or is a command of its own."""
    imported = {f"understudy.cli.{verb.module}" for verb in VERBS.values()}
    for path in tracked_files():
        if path.suffix == ".py":
            imported |= imported_names(path)
    commands = (ROOT / "pyproject.toml").read_text()
    unused = [
        name_of(path)
        for path in product_files()
        if path.name not in {"__init__.py", "__main__.py"}
        and (module := module_of(name_of(path))) not in imported
        and module not in commands
    ]
    assert unused == []


def test_ignored_types_have_a_reason() -> None:
    """Every comment that ignores a type error names the error's code and is followed by a reason."""
    unexplained = [
        f"{name_of(path)}:{number}"
        for path in python_files(*TYPE_CHECKED)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if IGNORED_TYPE.search(line) and not IGNORED_TYPE_WITH_REASON.search(line)
    ]
    assert unexplained == []


def test_no_file_contains_a_path_of_this_machine() -> None:
    private = re.compile(rf"({re.escape(str(ROOT))}/|{re.escape(str(Path.home()))}/)")
    found = []
    for path in tracked_files():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        if private.search(text):
            found.append(name_of(path))
    assert found == []
