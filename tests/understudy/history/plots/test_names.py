"""Short names of runs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from understudy.history.plots.names import short_names


def test_parts_that_all_runs_share_are_left_out() -> None:
    assert short_names(["b3-t3000-kill-7", "b3-t3000-kill-12"]) == {"b3-t3000-kill-7": "7", "b3-t3000-kill-12": "12"}
    assert short_names(["b3-t3000-kill-7", "b3-t9000-kill-7"]) == {
        "b3-t3000-kill-7": "t3000",
        "b3-t9000-kill-7": "t9000",
    }
    assert short_names(["seed-1", "seed-12"]) == {"seed-1": "1", "seed-12": "12"}
    assert short_names(["seed-1", "other"]) == {"seed-1": "seed-1", "other": "other"}
    assert short_names(["seed-1"]) == {"seed-1": "1"}
    assert short_names([]) == {}


@given(st.lists(st.text("ab-.", min_size=1, max_size=8), unique=True))
def test_different_runs_have_different_short_names(names: list[str]) -> None:
    short = short_names(names)
    assert list(short) == names
    assert len(set(short.values())) == len(names)
