"""The kinds of values in an experiment file. One table serves the reader, the JSON Schema and the documentation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from understudy.clusters import values
from understudy.clusters.problems import BadValue, Problem, one_of
from understudy.trials.experiments.language.yaml_nodes import YamlNode


@dataclass(frozen=True, slots=True)
class ValueKind:
    """A kind of value.

    Attributes:
        read: returns the value of a node; raises BadValue, or appends to the problems if there may be several.
        schema: its JSON Schema.
        words: its description, for documentation and errors.
    """

    read: Callable[[YamlNode, list[Problem]], Any]
    schema: Mapping[str, Any]
    words: str


@dataclass(frozen=True, slots=True)
class StepKey:
    """A key of a section.

    Attributes:
        meaning: one sentence without its full stop, for documentation.
        field: the name of its attribute; by default the key's name, with underscores.
    """

    name: str
    kind: ValueKind
    meaning: str
    field: str = ""
    is_required: bool = False

    @property
    def attribute(self) -> str:
        return self.field or self.name.replace("-", "_")


def scalar(parse: Callable[[object], Any], schema: Mapping[str, Any], words: str) -> ValueKind:
    def read(node: YamlNode, problems: list[Problem]) -> Any:
        if isinstance(node.value, list | dict):
            raise BadValue(f"this is a {'list' if isinstance(node.value, list) else 'mapping'}; expected {words}")
        return parse(node.value)

    return ValueKind(read, schema, words)


def _text(value: object) -> str:
    if value is None or value == "":
        raise BadValue("the value is empty; expected a text")
    return str(value)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise BadValue(f"{value!r} is neither true nor false")
    return value


def _name(value: object) -> str:
    word = str(value)
    if not word or len(word) > 100 or not all(each.isalnum() or each in "-_." for each in word):
        raise BadValue(f"{value!r} is no name; expected letters, digits, - and _")
    return word


TEXT: Final = scalar(_text, {"type": "string"}, "a text")
NAME: Final = scalar(_name, {"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,100}$"}, "a name")
FLAG: Final = scalar(_flag, {"type": "boolean"}, "true or false")
SPAN: Final = scalar(
    values.parse_span, {"type": "string", "examples": ["4s", "1s..4s"]}, "a duration (4s, 200ms) or a range (1s..4s)"
)
SHIFT: Final = scalar(
    values.parse_signed_duration, {"type": "string", "examples": ["-5s", "30s"]}, "a duration, with - for back"
)
COUNT_RANGE: Final = scalar(
    values.parse_count_range, {"type": ["integer", "string"], "examples": [1, "2..6"]}, "a number from 1, or a range"
)
TARGET: Final = scalar(
    values.parse_target,
    {"type": ["string", "integer"], "examples": ["controller", "leader(orders/0)", "B", 2]},
    "a broker's id, a bound name or a role",
)
ZOOKEEPER: Final = scalar(
    values.parse_zookeeper,
    {"type": "string", "examples": ["zookeeper", "zookeeper(leader)", "zookeeper(2)"]},
    "zookeeper for all its servers, zookeeper(leader) or zookeeper(ID)",
)
TRIGGER: Final = scalar(
    values.parse_trigger,
    {"type": "string", "examples": ["elected", "leader-changed(orders/0)"]},
    "an event of the cluster",
)
PARTITION: Final = scalar(
    lambda value: values.parse_partition(str(value)),
    {"type": "string", "examples": ["orders/0"]},
    "a partition, TOPIC/NUMBER",
)


def integer(low: int, high: int) -> ValueKind:
    def parse(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise BadValue(f"{value!r} is no whole number from {low:,} to {high:,}")
        return value

    return scalar(parse, {"type": "integer", "minimum": low, "maximum": high}, f"a whole number, {low:,} to {high:,}")


def number(low: float, high: float) -> ValueKind:
    def parse(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise BadValue(f"{value!r} is no number from {low:g} to {high:g}")
        return float(value)

    return scalar(parse, {"type": "number", "minimum": low, "maximum": high}, f"a number, {low:g} to {high:g}")


def word_of(known: Collection[str], what: str) -> Callable[[object], str]:
    """Return a parser that refuses every word except those in `known`, as no `what`."""

    def parse(value: object) -> str:
        if value not in known:
            raise one_of(value, tuple(known), what)
        return str(value)

    return parse


def choice(*words: str) -> ValueKind:
    return scalar(word_of(words, "choice here"), {"enum": list(words)}, " or ".join(words))


def list_of(kind: ValueKind, *, most: int = 200, may_be_single: bool = False) -> ValueKind:
    """Return the kind of a list. With `may_be_single`, one value without brackets is a list of one."""

    def read(node: YamlNode, problems: list[Problem]) -> tuple[Any, ...]:
        nodes: Sequence[YamlNode]
        if isinstance(node.value, list):
            nodes = node.value
        elif may_be_single:
            nodes = [node]
        else:
            raise BadValue(f"{node.plain!r} is no list; expected [{kind.words}, …]")
        if len(nodes) > most:
            raise BadValue(f"this list has {len(nodes)} values; at most {most} are allowed")
        return tuple(_read_each(kind, nodes, problems))

    array = {"type": "array", "items": dict(kind.schema), "maxItems": most}
    schema = {"anyOf": [dict(kind.schema), array]} if may_be_single else array
    return ValueKind(read, schema, f"a list, each {kind.words}")


def mapping_of(kind: ValueKind, words: str, check_key: Callable[[str], object] = str) -> ValueKind:
    """Return the kind of a mapping from names; `check_key` raises BadValue for a name that is not allowed."""

    def read(node: YamlNode, problems: list[Problem]) -> dict[str, Any]:
        if not isinstance(node.value, dict):
            raise BadValue(f"{node.plain!r} is no mapping; expected {words}")
        keys, nodes = list(node.value), list(node.value.values())
        found = dict(zip(keys, _read_each(kind, nodes, problems), strict=False))
        for key in found:
            try:
                check_key(key)
            except BadValue as bad:
                problems.append(Problem(node.key_lines[key], str(bad)))
        return found

    return ValueKind(read, {"type": "object", "additionalProperties": dict(kind.schema)}, words)


def section(
    keys: Sequence[StepKey],
    build: Callable[..., Any],
    words: str,
    check: Callable[[Any], Iterable[Problem]] = lambda built: (),
) -> ValueKind:
    """Return the kind of a mapping that refuses unknown keys.

    Args:
        build: gets the values by attribute, and `line`.
        check: returns the problems between the values of what was built.
    """

    def read(node: YamlNode, problems: list[Problem]) -> Any:
        found = read_keys(node, keys, problems, words)
        if found is None:
            return None
        built = build(line=node.line, **found)
        problems += check(built)
        return built

    return ValueKind(read, section_schema(keys), words)


def section_schema(keys: Sequence[StepKey]) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {key.name: {"description": key.meaning, **key.kind.schema} for key in keys},
        "required": [key.name for key in keys if key.is_required],
    }


def read_keys(node: YamlNode, keys: Sequence[StepKey], problems: list[Problem], words: str) -> dict[str, Any] | None:
    """Return the values of a mapping by attribute; None, with problems appended, if it cannot be read."""
    if not isinstance(node.value, dict):
        raise BadValue(f"{node.plain!r} is no mapping; expected {words}")
    before = len(problems)
    known = {key.name: key for key in keys}
    found: dict[str, Any] = {}
    for name, value in node.value.items():
        if (key := known.get(name)) is None:
            problems.append(Problem(node.key_lines[name], str(one_of(name, tuple(known), f"key of {words}"))))
            continue
        try:
            found[key.attribute] = key.kind.read(value, problems)
        except BadValue as bad:
            problems.append(Problem(value.line, f"{name}: {bad}"))
    missing = [key.name for key in keys if key.is_required and key.name not in node.value]
    if missing:
        problems.append(Problem(node.line, f"{words} lacks {', '.join(missing)}"))
    return found if len(problems) == before else None


def _read_each(kind: ValueKind, nodes: Sequence[YamlNode], problems: list[Problem]) -> list[Any]:
    found = []
    for node in nodes:
        try:
            found.append(kind.read(node, problems))
        except BadValue as bad:
            problems.append(Problem(node.line, str(bad)))
    return found
