"""Tests of style: lengths of files and functions, docstrings of modules, unused modules, paths of a machine.

The two tables are a ratchet: a file or function that is longer than the tripwire is listed with its length, may shrink,
and may not grow. A new entry needs a reason next to it.
"""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

from tests.pages.source import parse

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("foundation", "controller", "brokers", "understudy")

FILE_LINES = 550
FUNCTION_LINES = 70

LONG_FILES: dict[str, int] = {}
LONG_FUNCTIONS: dict[str, int] = {}


def product_files() -> list[Path]:
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


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


def too_long(lengths: dict[str, int], tripwire: int, known: dict[str, int]) -> dict[str, str]:
    return {
        name: f"{length} lines, may have {known.get(name, tripwire)}"
        for name, length in lengths.items()
        if length > known.get(name, tripwire)
    }


def test_files_stay_short() -> None:
    lengths = {name_of(path): len(path.read_text().splitlines()) for path in product_files()}
    assert too_long(lengths, FILE_LINES, LONG_FILES) == {}
    assert {name for name, known in LONG_FILES.items() if lengths.get(name, 0) < known} == set(), "tighten the ratchet"


def test_functions_stay_short() -> None:
    lengths = dict(function for path in product_files() for function in functions(path))
    assert too_long(lengths, FUNCTION_LINES, LONG_FUNCTIONS) == {}
    assert {name for name, known in LONG_FUNCTIONS.items() if lengths.get(name, 0) < known} == set(), (
        "tighten the ratchet"
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


def test_every_module_is_imported_or_a_command() -> None:
    """Every product module is imported by another file, or is a command of its own."""
    imported: set[str] = set()
    for path in tracked_files():
        if path.suffix == ".py":
            imported |= imported_names(path)
    commands = (ROOT / "pyproject.toml").read_text()
    dead = [
        name_of(path)
        for path in product_files()
        if path.name not in {"__init__.py", "__main__.py"}
        and (module := name_of(path).removesuffix(".py").replace("/", ".")) not in imported
        and module not in commands
    ]
    assert dead == []


def test_ignored_types_say_why() -> None:
    """`type: ignore` names its code and is followed by a reason."""
    unexplained = [
        f"{name_of(path)}:{number}"
        for path in product_files()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if "type: ignore" in line and not re.search(r"type: ignore\[[a-z, -]+\]  # \S", line)
    ]
    assert unexplained == []


def test_nothing_names_this_machine() -> None:
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
