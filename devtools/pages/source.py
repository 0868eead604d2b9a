"""Reads the docstrings of modules, classes and functions from the sources, with `ast`."""

from __future__ import annotations

import ast
import gc
from collections.abc import Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"
PACKAGES = ("foundation", "controller", "brokers", "understudy")
"""The folders of the product. The first three are packages of `understudy`, which has links to them."""


@cache
def parse(path: str) -> ast.Module:
    """The syntax tree of a file, named by its path inside the repository.

    No garbage is collected while it is made: a tree has none, and each collection would examine all trees so far.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return ast.parse((ROOT / path).read_text())
    finally:
        if was_enabled:
            gc.enable()


def path_of(module: str) -> str:
    """Return the path of a module inside the repository, not through the links of `understudy/`."""
    return (ROOT / f"{module.replace('.', '/')}.py").resolve().relative_to(ROOT).as_posix()


def module_of(path: str) -> str:
    """Return the name by which a product module is imported, from its path inside the repository."""
    name = path.removesuffix(".py").replace("/", ".")
    return name if name.startswith("understudy.") else f"understudy.{name}"


def product_files() -> list[str]:
    """The paths of all product modules, in order."""
    return sorted(
        file.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for file in (ROOT / package).rglob("*.py")
        if "__pycache__" not in file.parts
    )


def classes(module: ast.Module) -> Mapping[str, ast.ClassDef]:
    """The classes at the top of a module, by name, in the order of the source."""
    return {node.name: node for node in module.body if isinstance(node, ast.ClassDef)}


def in_one_line(text: str) -> str:
    return " ".join(text.split())


def docstring(node: ast.Module | ast.ClassDef | ast.FunctionDef) -> str:
    """The whole docstring in one line; empty if there is none."""
    return in_one_line(ast.get_docstring(node) or "")
