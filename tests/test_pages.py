"""Tests that the generated pages of docs/ are current, and that their sources are complete."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence

import pytest

from devtools.pages import event_log, tables
from devtools.pages.__main__ import PAGES
from devtools.pages.kafka_names import Counterpart, counterparts, names_in
from devtools.pages.source import DOCS, ROOT, docstring, parse, product_files
from devtools.pages.state_machines import (
    GROUP_MOVES,
    PARTITION_MOVES,
    REPLICA_MOVES,
    Moves,
    ValidPrevious,
    diagram,
    legal_moves,
)
from understudy.brokers.coordinator.group.group_state import VALID_PREVIOUS_STATES
from understudy.controller.transitions import VALID_PREVIOUS_PARTITION_STATES, VALID_PREVIOUS_REPLICA_STATES
from understudy.foundation.eventlog.records import PAYLOAD_BY_TYPE


@pytest.mark.parametrize(("name", "page"), PAGES.items(), ids=PAGES)
def test_a_generated_page_is_current(name: str, page: Callable[[], str]) -> None:
    assert (DOCS / name).read_text() == page(), "write it again: python -m devtools.pages"


@pytest.mark.parametrize(
    ("valid_previous", "moves"),
    [
        (VALID_PREVIOUS_PARTITION_STATES, PARTITION_MOVES),
        (VALID_PREVIOUS_REPLICA_STATES, REPLICA_MOVES),
        (VALID_PREVIOUS_STATES, GROUP_MOVES),
    ],
    ids=["partitions", "replicas", "groups"],
)
def test_every_legal_move_is_drawn_and_explained_and_no_other(valid_previous: ValidPrevious, moves: Moves) -> None:
    legal = legal_moves(valid_previous)
    assert {*legal} == {*moves}
    drawn = [line.split() for line in diagram(valid_previous) if "-->" in line]
    assert drawn == [[source.value, "-->", target.value] for source, target in legal]
    assert {state for move in legal for state in move} == {*valid_previous}, "a state without any move"


# ------------------------------------------------------------------ docs/reference/kafka-names.md


def test_every_module_and_name_of_ours_in_the_table_exists() -> None:
    missing = [
        row
        for row in counterparts()
        if not (ROOT / row.path).exists() or (row.name and row.name not in names_in(row.path))
    ]
    assert missing == []


def test_mirrored_names_of_docstrings_are_in_the_table() -> None:
    """If a docstring of a module has "Mirrors `KafkaApis`", the table has `KafkaApis` for that module."""
    table = counterparts()
    missing = [
        f"{path}: {name}" for path in product_files() for name in mirrored(path) if not is_listed(table, path, name)
    ]
    assert missing == [], "add it to the table in devtools/pages/kafka_names.py"


def is_listed(table: Sequence[Counterpart], path: str, name: str) -> bool:
    """Whether the table has a name for a module; the docstring of a package is about all its modules."""
    place = path.removesuffix("__init__.py")
    listed = {row.kafka for row in table if row.path.startswith(place)}
    return any(f".{name}." in f".{kafka}." for kafka in listed)


def mirrored(path: str) -> Iterator[str]:
    """The names in backquotes after "Mirrors" in the docstrings of a module."""
    module = parse(path)
    for node in (module, *(node for node in ast.walk(module) if isinstance(node, ast.ClassDef | ast.FunctionDef))):
        text = docstring(node)
        for sentence in re.findall(r"Mirrors\b(.*?)(?:[.;](?=\s|$)|$)", text):
            if "namesake" in sentence:
                yield node.name if isinstance(node, ast.ClassDef) else text.split("`")[1]
            yield from (name for name in re.findall(r"`([\w.]+)`", sentence) if not name.endswith((".scala", ".jute")))


def test_mirrored_names_are_read_from_docstrings() -> None:
    names = [name.rpartition(".")[2] for name in mirrored("controller/transitions.py")]
    assert names == ["PartitionState", "ReplicaState"]
    assert list(mirrored("controller/context.py")) == ["ControllerContext"]


# ------------------------------------------------------------------ docs/reference/event-log.md


def test_every_record_type_and_every_field_of_it_is_described_in_its_source() -> None:
    assert event_log.without_description() == []


def test_every_record_type_is_in_the_page_with_all_its_fields() -> None:
    sections = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", event_log.page(), re.MULTILINE | re.DOTALL))
    assert PAYLOAD_BY_TYPE.keys() <= sections.keys()
    for name, payload in PAYLOAD_BY_TYPE.items():
        assert re.findall(r"^\| `(\w+)` \|", sections[name], re.MULTILINE) == list(payload.__struct_fields__)


# ------------------------------------------------------------------ docs/reference/tables.md


def test_every_column_of_every_table_is_described_in_its_source() -> None:
    assert tables.without_description() == []
