"""Reads YAML into nodes with their line numbers. No other module imports yaml.

Only plain scalars, lists and mappings are read: no tags, no anchors, no aliases, no merge keys. `on`, `yes` and `1:30`
are words, as in YAML 1.2: only `true` and `false` are booleans.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import yaml

from understudy.clusters.problems import BadExperiment, Problem

MOST_BYTES: Final = 256 * 1024
MOST_NODES: Final = 20_000
DEEPEST: Final = 20

Scalar: TypeAlias = str | int | float | bool | None

_CONVERSIONS: Final[Mapping[str, Callable[[str], Scalar]]] = {
    "tag:yaml.org,2002:int": int,
    "tag:yaml.org,2002:float": float,
    "tag:yaml.org,2002:bool": lambda text: text == "true",
    "tag:yaml.org,2002:null": lambda text: None,
    "tag:yaml.org,2002:str": str,
}


@dataclass(frozen=True, slots=True)
class YamlNode:
    """A value of a file, and the line where it begins, from 1.

    Attributes:
        value: a scalar, a list of nodes, or a mapping from key to node.
        key_lines: of a mapping, the line of each key.
    """

    line: int
    value: Scalar | list[YamlNode] | dict[str, YamlNode]
    key_lines: dict[str, int] = field(default_factory=dict)

    @property
    def plain(self) -> object:
        """The value without its lines."""
        if isinstance(self.value, list):
            return [each.plain for each in self.value]
        if isinstance(self.value, dict):
            return {key: each.plain for key, each in self.value.items()}
        return self.value


class _Loader(yaml.SafeLoader):
    """Resolves plain scalars as YAML 1.2's core schema does."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, object]]] = {}  # noqa: RUF012  yaml's own attribute


def _resolve(tag: str, pattern: str, first: str) -> None:
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(rf"^(?:{pattern})$"), list(first))


_resolve("bool", "true|false", "tf")
_resolve("int", "[-+]?[0-9]{1,18}", "-+0123456789")
_resolve("float", r"[-+]?[0-9]{1,18}\.[0-9]{1,18}", "-+0123456789")
_resolve("null", "~|null|", "~n\0")


def parse(text: str, source: str) -> YamlNode:
    """Parse one YAML document.

    Args:
        source: the name of the file, for messages.

    Raises:
        BadExperiment: it is too large or too deep, no YAML, has an alias or a tag, or a key twice.
    """
    if len(text.encode()) > MOST_BYTES:
        raise BadExperiment(source, [Problem(1, f"the file is larger than {MOST_BYTES // 1024} KiB")])
    try:
        _refuse_large(text, source)
        composed = yaml.compose(text, _Loader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise BadExperiment(source, [Problem(line, f"this is no YAML: {error.problem}")]) from None
    except yaml.YAMLError as error:
        raise BadExperiment(source, [Problem(1, f"this is no YAML: {error}")]) from None
    if composed is None:
        raise BadExperiment(source, [Problem(1, "the file is empty; `understudy experiment new NAME` writes one")])
    return _node(composed, source)


def _refuse_large(text: str, source: str) -> None:
    """Raise BadExperiment for text that would take long to compose: aliases, deep nesting, very many nodes."""
    depth = 0
    for nodes, event in enumerate(yaml.parse(text, _Loader), 1):
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise BadExperiment(source, [Problem(line, "anchors and aliases (& and *) are not allowed")])
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEEPEST or nodes > MOST_NODES:
            raise BadExperiment(source, [Problem(line, f"more than {DEEPEST} levels or {MOST_NODES:,} values")])


def _node(composed: yaml.Node, source: str) -> YamlNode:
    line = composed.start_mark.line + 1
    if isinstance(composed, yaml.SequenceNode) and composed.tag == "tag:yaml.org,2002:seq":
        return YamlNode(line, [_node(each, source) for each in composed.value])
    if isinstance(composed, yaml.MappingNode) and composed.tag == "tag:yaml.org,2002:map":
        return _mapping(composed, line, source)
    if isinstance(composed, yaml.ScalarNode) and composed.tag in _CONVERSIONS:
        return YamlNode(line, _CONVERSIONS[composed.tag](composed.value))
    raise BadExperiment(source, [Problem(line, f"the tag {composed.tag} is not allowed")])


def _mapping(composed: yaml.MappingNode, line: int, source: str) -> YamlNode:
    found: dict[str, YamlNode] = {}
    lines: dict[str, int] = {}
    for key, value in composed.value:
        key_line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise BadExperiment(source, [Problem(key_line, "a key is a word")])
        if key.value in found:
            raise BadExperiment(source, [Problem(key_line, f"the key {key.value!r} is there twice")])
        found[key.value] = _node(value, source)
        lines[key.value] = key_line
    return YamlNode(line, found, lines)
