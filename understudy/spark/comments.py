"""Gives the meaning of a table's columns, from the strings after the fields of the struct that defines it."""

from __future__ import annotations

import ast
import inspect
import textwrap
from functools import cache

import msgspec


@cache
def column_comments(struct: type[msgspec.Struct]) -> dict[str, str]:
    """Return the meaning of each field of a struct and of its bases, in one line; empty if there is no source."""
    comments: dict[str, str] = {}
    for owner in reversed(struct.__mro__):
        if issubclass(owner, msgspec.Struct) and owner is not msgspec.Struct:
            comments |= _comments_of(owner)
    return comments


def _comments_of(owner: type) -> dict[str, str]:
    try:
        module = ast.parse(textwrap.dedent(inspect.getsource(owner)))
    except OSError:  # for example in an archive of compiled modules
        return {}
    (definition,) = module.body
    assert isinstance(definition, ast.ClassDef)
    comments = {}
    for field, after in zip(definition.body, definition.body[1:], strict=False):
        match field, after:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                comments[name] = " ".join(text.split())
    return comments
