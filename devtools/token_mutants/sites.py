"""Finds the tokens that may change, with the changes of each, and draws mutants among them by a seed.

Left out is what no run can depend on, or what mypy checks: docstrings, annotations, aliases of types, decorators, the
bases and keywords of classes, calls of a logger, and the arguments of raised exceptions.
"""

from __future__ import annotations

import ast
import hashlib
import io
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

ROOMS = ("controller", "brokers/replication")
PACKAGES = ("foundation", "controller", "brokers")
"""Packages in which the enumerations are looked for whose members are exchanged."""

_EXCHANGES: Mapping[str, tuple[str, ...]] = {
    "<": ("<=", ">="),
    "<=": ("<", ">"),
    ">": (">=", "<="),
    ">=": (">", "<"),
    "==": ("!=",),
    "!=": ("==",),
    "+": ("-",),
    "-": ("+",),
    "+=": ("-=",),
    "-=": ("+=",),
    "|": ("&",),
    "&": ("|",),
    "and": ("or",),
    "or": ("and",),
    "not": ("",),
    "in": ("not in",),
    "is": ("is not",),
    "True": ("False",),
    "False": ("True",),
    "break": ("continue",),
    "continue": ("break",),
}
_FUNCTIONS: Mapping[str, tuple[str, ...]] = {"min": ("max",), "max": ("min",), "any": ("all",), "all": ("any",)}
_ENUMS = {"Enum", "IntEnum", "StrEnum", "Flag", "IntFlag"}
_LOG_METHODS = {"debug", "info", "warning", "error", "exception", "critical"}

Position = tuple[int, int]
"""A line, from 1, and a column in characters, from 0."""
Range = tuple[Position, Position]
"""From a position to the one after the last."""
Members = Mapping[str, tuple[str, ...]]
"""The names of the members of each enumeration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One token of a file changed. Its `key` does not depend on the number of the line."""

    file: str
    """The path inside the repository."""
    function: str
    """The qualified name of the innermost function that the token is in; empty if the token runs at import."""
    before: str
    """The line without its indentation, unchanged."""
    after: str
    nth: int
    """Which of the places in this function, from 1, that have the same line and the same change."""
    line: int
    change: str
    """The change of the token in words: `< → <=`."""

    @property
    def key(self) -> tuple[str, str, str, str, int]:
        return (self.file, self.function, self.before, self.after, self.nth)

    @property
    def room(self) -> str:
        return next(room for room in ROOMS if self.file.startswith(f"{room}/"))

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.change} in `{self.after}`"

    def applied_to(self, source: str) -> str:
        """Return the source with the change.

        Raises:
            ValueError: the line is not in the source where it was when the mutant was drawn.
        """
        lines = source.splitlines(keepends=True)
        line = lines[self.line - 1]
        if line.strip() != self.before:
            raise ValueError(f"{self.file}:{self.line} is {line.strip()!r}, expected {self.before!r}; draw again")
        lines[self.line - 1] = line.replace(self.before, self.after, 1)
        return "".join(lines)


def files(root: Path, only: str | None = None) -> list[str]:
    """The paths of all modules of the rooms, in order, or of those that begin with `only`."""
    found = sorted(path.relative_to(root).as_posix() for room in ROOMS for path in (root / room).rglob("*.py"))
    return [path for path in found if only is None or path.startswith(only)]


def draw(root: Path, seed: int, only: str | None = None) -> Iterator[Mutant]:
    """Draw mutants without end of the sites: each token once, in an order and with a change that follow from the seed.

    The order depends on each site alone, so a change of other code leaves it. A mutant that does not compile, or to the
    same code, is left out.
    """
    members = enum_members(root)
    sites = [site for path in files(root, only) for site in sites_of(path, (root / path).read_text(), members)]
    for site in sorted(sites, key=lambda site: _digest(seed, site)):
        mutant = site[_digest(seed, site) % len(site)]
        if _makes_a_difference((root / mutant.file).read_text(), mutant):
            yield mutant


def _digest(seed: int, site: Sequence[Mutant]) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed} {site[0].key}".encode()).digest()[:8])


def _makes_a_difference(source: str, mutant: Mutant) -> bool:
    """Whether the mutant compiles, and to other code than the original."""
    try:
        changed = compile(mutant.applied_to(source), mutant.file, "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return _meaning(changed) != _meaning(compile(source, mutant.file, "exec", dont_inherit=True))


def _meaning(code: CodeType) -> tuple[object, ...]:
    """What a code object does, without the lines and columns it was compiled from."""
    constants = tuple(
        _meaning(each) if isinstance(each, CodeType) else (type(each).__name__, repr(each)) for each in code.co_consts
    )
    return (code.co_name, code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_flags, constants)


# ------------------------------------------------------------------ the sites of a file


def sites_of(path: str, source: str, members: Members) -> Iterator[tuple[Mutant, ...]]:
    """For each token of a file that may change: the mutants that can be made of it."""
    tree, lines = ast.parse(source), source.splitlines()
    left_out, functions = list(_left_out(tree, lines)), list(_functions(tree, lines))
    tokens = [
        token
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type in (tokenize.OP, tokenize.NAME, tokenize.NUMBER)
    ]
    seen: Counter[tuple[str, str, str]] = Counter()
    for index, token in enumerate(tokens):
        if any(start <= token.start < end for start, end in left_out):
            continue
        row, line = token.start[0], lines[token.start[0] - 1]
        function = _innermost(functions, token.start)
        site = []
        for text in _changes(tokens, index, members):
            after = line[: token.start[1]] + text + line[token.end[1] :]
            change = f"{token.string} → {text}" if text else f"{token.string} left out"
            key = (function, line.strip(), after.strip())
            seen[key] += 1
            site.append(
                Mutant(
                    file=path,
                    function=function,
                    before=line.strip(),
                    after=after.strip(),
                    nth=seen[key],
                    line=row,
                    change=change,
                )
            )
        if site:
            yield tuple(site)


def _changes(tokens: Sequence[tokenize.TokenInfo], index: int, members: Members) -> tuple[str, ...]:
    """What a token may become."""
    text, kind = tokens[index].string, tokens[index].type
    before = [token.string for token in tokens[max(0, index - 2) : index]]
    following = tokens[index + 1].string if index + 1 < len(tokens) else ""
    if kind == tokenize.NUMBER:
        number = text.replace("_", "")
        return (str(int(number) + 1), str(int(number) - 1)) if number.isdecimal() else ()
    if kind == tokenize.NAME and before[-1:] == ["."]:
        siblings = members.get(before[0], ()) if len(before) == 2 else ()
        return tuple(name for name in siblings if name != text) if text in siblings else ()
    if text in _FUNCTIONS and following == "(":
        return _FUNCTIONS[text]
    # `not in` and `is not` change if their `not` is left out.
    if (text == "in" and before[-1:] == ["not"]) or (text == "is" and following == "not"):
        return ()
    return _EXCHANGES.get(text, ())


def _left_out(tree: ast.Module, lines: Sequence[str]) -> Iterator[Range]:
    for node in ast.walk(tree):
        parts: list[ast.expr | ast.keyword | ast.stmt | None] = []
        match node:
            case ast.AnnAssign():
                parts = [node if ast.unparse(node.annotation) == "TypeAlias" else node.annotation]
            case ast.arg():
                parts = [node.annotation]
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                parts = [node.returns, *node.decorator_list]
            case ast.ClassDef():
                parts = [*node.decorator_list, *node.bases, *node.keywords]
            case ast.Raise(exc=ast.Call() as call):
                parts = [*call.args, *call.keywords]
            case ast.Call(func=ast.Attribute(attr=method, value=logger)) if method in _LOG_METHODS:
                parts = [node] if ast.unparse(logger).split(".")[-1].endswith(("log", "logger")) else []
            case ast.JoinedStr():
                parts = [node]
        yield from (_range(part, lines) for part in parts if part is not None)


def _functions(tree: ast.AST, lines: Sequence[str], within: str = "") -> Iterator[tuple[Range, str]]:
    """The bodies of all functions with the `co_qualname` of each, outer ones first."""
    for node in ast.iter_child_nodes(tree):
        inner = within
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            name = f"{within}{node.name}"
            yield (_range(node.body[0], lines)[0], _range(node, lines)[1]), name
            inner = f"{name}.<locals>."
        elif isinstance(node, ast.ClassDef):
            inner = f"{within}{node.name}."
        yield from _functions(node, lines, inner)


def _innermost(functions: Iterable[tuple[Range, str]], position: Position) -> str:
    return next((name for (start, end), name in reversed(list(functions)) if start <= position < end), "")


def _range(node: ast.expr | ast.keyword | ast.stmt, lines: Sequence[str]) -> Range:
    """Return the place of a node. The columns of `ast` count bytes."""

    def characters(row: int, column: int) -> int:
        return len(lines[row - 1].encode()[:column].decode())

    last, end = node.end_lineno or node.lineno, node.end_col_offset or 0
    return (node.lineno, characters(node.lineno, node.col_offset)), (last, characters(last, end))


def enum_members(root: Path) -> Members:
    """The names of the members of every enumeration of the product that `controller/` can see, by its class."""
    found: dict[str, tuple[str, ...]] = {}
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef) and _ENUMS & {
                    ast.unparse(base).split(".")[-1] for base in node.bases
                }:
                    found[node.name] = tuple(
                        target.id
                        for statement in node.body
                        if isinstance(statement, ast.Assign)
                        for target in statement.targets
                        if isinstance(target, ast.Name) and not target.id.startswith("_")
                    )
    return found
