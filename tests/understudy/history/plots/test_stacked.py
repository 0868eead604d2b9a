"""Pictures of parts that add up."""

from __future__ import annotations

from tests.understudy.history.plots.drawn import SVG, pictures, texts
from understudy.history.plots.stacked import Bar, stacked

NAMES = ["detection", "election", "takeover", "propagation"]


def bar(name: str, *parts: float) -> Bar:
    return Bar(name=name, parts=parts, said=[f"{part:g}" for part in parts], total_said=f"{sum(parts):g} ms")


def test_parts_follow_each_other_and_are_written_below_with_their_colours() -> None:
    (picture,) = pictures(stacked("Phases", "mean, ms", NAMES, [bar("a", 10, 20, 30, 40), bar("b", 50, 0, 0, 0)]))
    rects = [(rect.get("x"), rect.get("width")) for rect in picture.iter(f"{SVG}rect")]
    assert rects == [("0%", "10%"), ("10%", "20%"), ("30%", "30%"), ("60%", "40%"), ("0%", "50%")]
    assert "■ detection 10  ■ election 20  ■ takeover 30" in texts(picture)
    assert "■ propagation 40" in texts(picture), "four parts need two lines on a telephone"
    assert picture.findtext(f"{SVG}desc") == (
        "a: 100 ms, detection 10, election 20, takeover 30, propagation 40; "
        "b: 50 ms, detection 50, election 0, takeover 0, propagation 0"
    )
    assert len({rect.get("fill") for rect in picture.iter(f"{SVG}rect")}) == len(NAMES)


def test_a_part_that_is_not_zero_is_seen() -> None:
    (picture,) = pictures(stacked("Phases", "ms", NAMES, [bar("a", 9_000, 0, 1, 0)]))
    widths = [float((rect.get("width") or "").removesuffix("%")) for rect in picture.iter(f"{SVG}rect")]
    assert widths == [90, 0.5]


def test_a_group_without_parts_says_why() -> None:
    without = Bar(name="b", parts=(), said=(), total_said="no failover")
    (picture,) = pictures(stacked("Phases", "ms", NAMES, [bar("a", 1, 1, 1, 1), without]))
    assert "no failover" in texts(picture)
    assert stacked("Phases", "ms", NAMES, [without]) == ""
