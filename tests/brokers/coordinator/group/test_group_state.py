"""Tests of the table of a group's states."""

from __future__ import annotations

import pytest

from understudy.brokers.coordinator.group.group_state import GroupState as S
from understudy.brokers.coordinator.group.group_state import InvalidGroupTransition, check_transition

ALLOWED = {
    (S.EMPTY, S.PREPARING_REBALANCE),
    (S.STABLE, S.PREPARING_REBALANCE),
    (S.COMPLETING_REBALANCE, S.PREPARING_REBALANCE),
    (S.PREPARING_REBALANCE, S.COMPLETING_REBALANCE),
    (S.PREPARING_REBALANCE, S.EMPTY),
    (S.COMPLETING_REBALANCE, S.STABLE),
    *((state, S.DEAD) for state in S),
}


@pytest.mark.parametrize("target", S)
@pytest.mark.parametrize("source", S)
def test_a_group_changes_between_those_states_only_that_kafka_allows(source: S, target: S) -> None:
    if (source, target) in ALLOWED:
        check_transition("g", source, target)
    else:
        with pytest.raises(InvalidGroupTransition, match=f"group g cannot go from {source.value} to {target.value}"):
            check_transition("g", source, target)
