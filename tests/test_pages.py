"""The pages of docs/ that are made from the code say what the code says today."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from controller.transitions import VALID_PREVIOUS_PARTITION_STATES, VALID_PREVIOUS_REPLICA_STATES
from tests.pages.__main__ import PAGES
from tests.pages.source import DOCS
from tests.pages.state_machines import PARTITION_MOVES, REPLICA_MOVES, Moves, ValidPrevious, diagram, legal_moves


@pytest.mark.parametrize(("name", "page"), PAGES.items(), ids=PAGES)
def test_a_generated_page_is_current(name: str, page: Callable[[], str]) -> None:
    assert (DOCS / name).read_text() == page(), "write it again: python -m tests.pages"


@pytest.mark.parametrize(
    ("valid_previous", "moves"),
    [(VALID_PREVIOUS_PARTITION_STATES, PARTITION_MOVES), (VALID_PREVIOUS_REPLICA_STATES, REPLICA_MOVES)],
    ids=["partitions", "replicas"],
)
def test_every_legal_move_is_drawn_and_explained_and_no_other(valid_previous: ValidPrevious, moves: Moves) -> None:
    legal = legal_moves(valid_previous)
    assert {*legal} == {*moves}
    drawn = [line.split() for line in diagram(valid_previous) if "-->" in line]
    assert drawn == [[source.value, "-->", target.value] for source, target in legal]
    assert {state for move in legal for state in move} == {*valid_previous}, "a state without any move"
