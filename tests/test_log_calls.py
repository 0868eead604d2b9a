"""Tests of every logger call in the product: the message is a constant, the fields are listed in
docs/reference/logs.md."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from devtools.pages.source import parse
from tests.operators_log import FIELDS
from tests.test_tidy import name_of, product_files

LOGGER = "FilteringBoundLogger"
METHODS = frozenset({"debug", "info", "warning", "error", "critical", "exception"})


class Call(NamedTuple):
    line: int
    method: str
    arguments: list[ast.expr]
    keywords: list[ast.keyword]


def loggers(tree: ast.Module) -> set[str]:
    """Names and attributes that are annotated as structlog's loggers or made from these by `bind`."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and _is_logger(node.annotation):
            found.add(ast.unparse(node.target))
        elif isinstance(node, ast.arg) and node.annotation is not None and _is_logger(node.annotation):
            found.add(node.arg)
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            value = ast.unparse(node.value)
            if value in found or any(value.startswith(f"{logger}.bind(") for logger in found):
                found |= {ast.unparse(target) for target in node.targets}
    return found


def _is_logger(annotation: ast.expr) -> bool:
    return LOGGER in ast.unparse(annotation)


def calls(tree: ast.Module) -> Iterator[Call]:
    names = loggers(tree)
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in {*METHODS, "log", "bind"}
            and ast.unparse(node.func.value) in names
        ):
            if node.func.attr in METHODS:
                yield Call(node.lineno, node.func.attr, node.args, node.keywords)
            elif node.func.attr == "log":
                yield Call(node.lineno, "log", node.args[1:], node.keywords)
            elif node.func.attr == "bind":
                yield Call(node.lineno, "bind", [ast.Constant("")], node.keywords)


FORWARDING = "brokers/machine/operator_log.py"
"""It passes on what libraries log."""

LOGGING = [path for path in product_files() if name_of(path) != FORWARDING and LOGGER in path.read_text()]
"""The files that annotate a logger: without the annotation no call is found."""


@cache
def calls_in(path: Path) -> list[Call]:
    return list(calls(parse(name_of(path))))


def test_calls_are_found() -> None:
    found = {name_of(path): len(calls_in(path)) for path in LOGGING}
    assert sum(found.values()) > 150
    assert found["brokers/apis/control_request_log.py"], "through a logger with bound fields"
    assert found["foundation/zk/rereading.py"], "through a parameter"


@pytest.mark.parametrize("path", LOGGING, ids=name_of)
def test_messages_are_constants(path: Path) -> None:
    """Values belong in fields: operators search for a message, count it and alert on it."""
    assert [
        f"line {call.line}: {', '.join(map(ast.unparse, call.arguments))}"
        for call in calls_in(path)
        if not (len(call.arguments) == 1 and isinstance(call.arguments[0], ast.Constant))
    ] == []


@pytest.mark.parametrize("path", LOGGING, ids=name_of)
def test_fields_are_documented(path: Path) -> None:
    assert [
        f"line {call.line}: {keyword.arg} is not in docs/reference/logs.md"
        for call in calls_in(path)
        for keyword in call.keywords
        if keyword.arg is not None and keyword.arg not in FIELDS
    ] == []


def test_every_documented_field_is_one_of_some_line() -> None:
    """A field that no source file names belongs to a line that was removed."""
    written = {word for path in product_files() for word in _words(parse(name_of(path))) if word in FIELDS}
    assert sorted(FIELDS.keys() - written) == []


def _words(tree: ast.Module) -> Iterator[str]:
    """Keywords, string constants and names of attributes and dataclass fields: all that becomes a field's name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg is not None:
            yield node.arg
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
