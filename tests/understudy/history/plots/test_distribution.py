"""Pictures of distributions: dots or curves, with medians, on one axis."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.understudy.history.plots.drawn import SVG, group, pictures, places, texts
from understudy.history.plots.distribution import MOST_DOTS, MOST_OF_GROUP, distribution, is_strip_plot, spread
from understudy.history.plots.stacked import Bar


def test_each_value_is_a_dot_on_one_axis_for_all_groups_beside_the_median() -> None:
    (picture,) = pictures(distribution("outage", "ms", [group("3 s", [1_000, 2_000, 4_000]), group("9 s", [8_000])]))
    assert places(picture) == [12.5, 25, 50, 100]
    assert "3 runs, median 2000 ms" in texts(picture)
    assert "1 run, median 8000 ms" in texts(picture)
    assert texts(picture)[-1] == "1 run, median 8000 ms"
    assert "outage, ms" in texts(picture)
    lines = [line.attrib for line in picture.iter(f"{SVG}line") if line.get("stroke-width") == "2"]
    assert [line["x1"] for line in lines] == ["25%", "100%"]


def test_each_dot_names_its_run_and_its_value_and_may_be_a_link() -> None:
    (picture,) = pictures(distribution("outage", "ms", [group("a", [1, 2], link="#run-")]))
    assert [link.get("href") for link in picture.iter(f"{SVG}a")] == ["#run-0", "#run-1"]
    assert [title.text for title in picture.iter(f"{SVG}title")] == ["0: 1", "1: 2"]
    assert [circle.get("data-run") for circle in picture.iter(f"{SVG}circle")] == ["a-0", "a-1"]
    assert picture.get("role") == "group", "a role img hides its links"


def test_a_screen_reader_has_a_name_and_the_medians_in_words() -> None:
    (picture,) = pictures(distribution("outage", "ms", [group("a", [1, 2, 3]), group("b", [])]))
    assert (picture.get("role"), picture.get("aria-label")) == ("img", "Distribution of outage in ms")
    assert picture.findtext(f"{SVG}desc") == "Each dot is the value of one run. a: 3 runs, median 2 ms; b: no run"


def test_a_group_without_values_keeps_its_row_and_no_values_at_all_are_no_picture() -> None:
    (picture,) = pictures(distribution("outage", "ms", [group("empty", []), group("b", [1])]))
    assert "no run" in texts(picture)
    assert len(places(picture)) == 1
    assert distribution("outage", "ms", [group("empty", [])]) == ""


def test_equal_values_are_spread_over_the_strip() -> None:
    (picture,) = pictures(distribution("outage", "ms", [group("a", [7.0] * 40)]))
    heights = {circle.get("cy") for circle in picture.iter(f"{SVG}circle")}
    assert len(heights) > 20


@given(st.integers(0, 500))
def test_neighbours_are_far_from_each_other_across_the_strip(place: int) -> None:
    assert 0 < spread(place) < 1
    assert abs(spread(place) - spread(place + 1)) >= 0.25
    assert spread(0) == 0.5


@pytest.mark.parametrize(
    ("sizes", "dots"),
    [([MOST_OF_GROUP], True), ([MOST_OF_GROUP + 1], False), ([150] * (MOST_DOTS // 150), True), ([150] * 5, False)],
)
def test_many_values_are_drawn_as_curves(sizes: list[int], dots: bool) -> None:
    groups = [group(str(size), [float(value) for value in range(size)]) for size in sizes]
    assert is_strip_plot(groups) is dots
    (picture,) = pictures(distribution("outage", "ms", groups))
    assert bool(places(picture)) is dots
    assert len(list(picture.iter(f"{SVG}path"))) == (0 if dots else len(sizes))


def test_a_curve_rises_to_one_at_the_largest_value_which_remains_a_dot() -> None:
    whole = group("a", [float(value) for value in range(1, 1_001)])
    largest = replace(whole, dots=whole.dots[-2:], curve=[(500.0, 0.5), (1_000.0, 1.0)])
    (picture,) = pictures(distribution("outage", "ms", [largest]))
    (path,) = picture.iter(f"{SVG}path")
    assert path.get("d") == "M0 190H500.0V95.0H1000.0V0.0H1000"
    assert places(picture) == [99.9, 100]
    assert [title.text for title in picture.iter(f"{SVG}title")] == ["998: 999", "999: 1000"]


def test_an_outlier_stays_visible_on_a_logarithmic_axis_that_says_so() -> None:
    (picture,) = pictures(distribution("takeover", "ms", [group("a", [1.0, 2, 3, 1_000])]))
    assert places(picture) == [0, 10.03, 15.9, 100]
    assert "takeover, ms (logarithmic)" in texts(picture)


def test_phases_are_stacked_below_the_dots_on_the_same_axis() -> None:
    bars = [Bar(name="a", parts=[50, 0, 30], said=["50", "0", "30"], total_said="80 ms")]
    (picture,) = pictures(
        distribution("outage", "ms", [group("a", [100.0])], part_names=["detection", "election", "takeover"], bars=bars)
    )
    widths = [(rect.get("x"), rect.get("width")) for rect in picture.iter(f"{SVG}rect")][1:]
    assert widths == [("0%", "50%"), ("50%", "30%")]
    assert "■ detection 50  ■ election 0  ■ takeover 30" in texts(picture)
    assert "mean of a: 80 ms, detection 50, election 0, takeover 30" in (picture.findtext(f"{SVG}desc") or "")


def test_names_from_logs_are_escaped() -> None:
    text = distribution("outage", "ms", [group("<script>", [1.0])])
    assert "<script>" not in text
    assert "&lt;script&gt;" in text


def test_the_same_values_give_the_same_text() -> None:
    groups = [group("a", [3.0, 1.0, 2.0])]
    assert distribution("outage", "ms", groups) == distribution("outage", "ms", groups)
