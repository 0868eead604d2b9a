"""Which requests a rule of the proxy selects."""

from __future__ import annotations

import pytest

from understudy.clusters.request_rules import Effect, RequestRule


def selected(rule: RequestRule, apis: list[int], *, is_whole: bool = True) -> list[int]:
    """The positions, from 1, of the requests that the rule selects."""
    return [number for number, api in enumerate(apis, 1) if rule.selects(api, is_whole=is_whole)]


@pytest.mark.parametrize(
    ("api", "nth", "every", "expected"),
    [
        (None, 1, None, [1]),
        (None, 3, None, [3]),
        (None, 2, 2, [2, 4, 6]),
        (None, 1, 1, [1, 2, 3, 4, 5, 6]),
        (4, 1, None, [2]),
        (4, 2, 1, [4, 6]),
        (9, 1, 1, []),
    ],
)
def test_a_rule_selects_by_api_and_count(api: int | None, nth: int, every: int | None, expected: list[int]) -> None:
    rule = RequestRule(name="r", sources=("a",), destinations=("b",), effect=Effect.HOLD, api=api, nth=nth, every=every)
    assert selected(rule, [3, 4, 3, 4, 3, 4]) == expected
    assert rule.applied == len(expected)


@pytest.mark.parametrize(("effect", "expected"), [(Effect.CORRUPT, []), (Effect.LOSE_ANSWER, [1])])
def test_a_request_that_is_not_kept_whole_cannot_be_changed(effect: Effect, expected: list[int]) -> None:
    rule = RequestRule(name="r", sources=("a",), destinations=("b",), effect=effect)
    assert selected(rule, [3], is_whole=False) == expected
