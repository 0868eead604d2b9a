"""The pages of a comparison: their numbers, their widths, and that the HTML page stands by itself."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from tests.understudy.history.compare.observations import group, incomplete, observation
from tests.understudy.history.plots.drawn import SVG, pictures, places, texts
from understudy.history.compare.comparison import WORST, Comparison, compare
from understudy.history.compare.groups import QUANTITIES, Observation, Quantity
from understudy.history.compare.html_page import DRAWN_GROUPS, html_page
from understudy.history.compare.json_page import as_json
from understudy.history.compare.text_page import number, p_value, render
from understudy.history.writing import WIDTH

MS = Quantity("outage", "ms", 1_000, "")


def comparison(*more: Observation) -> Comparison:
    runs = [
        *group("short", 40, 2_000, session_timeout_ms=2000, fault="kill"),
        *group("long", 40, 6_000, session_timeout_ms=6000, fault="kill"),
        *more,
    ]
    return compare(runs, ("session_timeout_ms", "fault"), {"session_timeout_ms": "6000"})


def test_the_text_page_has_every_quantity_with_its_intervals_and_changes() -> None:
    page = render(comparison())
    for quantity in QUANTITIES:
        assert f"\n{quantity.name}, {quantity.unit}: " in page
    section = page.partition("outage, ms: ")[2].partition("\n\n")[0].splitlines()
    assert section[1].split() == ["group", "n", "p50", "p90", "p99", "max", "change", "of", "p50"]
    assert re.fullmatch(r"  2000 · kill +40 +[\d,]+ +[\d,]+ +[\d,]+ +[\d,]+ +−[\d,]+ \(−6\d %\)", section[2])
    assert re.fullmatch(r" +[\d,]+–[\d,]+ +[\d,]+–[\d,]+ +changed, p (< 0\.001|0\.00\d)", section[3])
    assert "understudy replay runs/long-" in page
    assert "correction for 7 tests" in page


def test_no_line_but_a_command_is_wider_than_the_page() -> None:
    long = "x" * 150
    page = render(comparison(observation("far\naway", [90_000.0], session_timeout_ms=long, fault="\x1b[31mred")))
    wide = [line for line in page.splitlines() if len(line) > WIDTH]
    assert wide == []
    assert "\x1b" not in page


def test_a_command_is_never_cut() -> None:
    run = observation("y" * 120, [90_000.0], session_timeout_ms=6000, fault="kill")
    assert f"understudy replay runs/{run.run}\n" in render(comparison(run))


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, "—"), (0, "0"), (412, "0.412"), (12_345, "12.3"), (123_456, "123"), (5_998_400, "5,998")],
)
def test_a_number_has_the_digits_that_mean_something(value: int | None, expected: str) -> None:
    assert number(value, MS) == expected


def test_p_values_are_not_shown_as_zero() -> None:
    assert [p_value(p) for p in (0.0001, 0.0123, 0.34, 1.0)] == ["p < 0.001", "p 0.012", "p 0.34", "p 1.00"]


class Tags(HTMLParser):
    """Collects the tags and attributes of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_the_html_page_needs_no_script_and_no_network() -> None:
    page = html_page(comparison())
    tags = Tags(page).found
    assert {"script", "link", "img", "iframe", "object"}.isdisjoint(tag for tag, _ in tags)
    assert all(not {"src", "onload", "onclick"} & attributes.keys() for _, attributes in tags)
    assert all((attributes.get("href") or "#").startswith("#") for _, attributes in tags)
    addresses = set(re.findall(r"\b\w+://[^\"'\s<]+", page))
    assert addresses == {"http://www.w3.org/2000/svg"}, "the name of SVG's elements, which no browser opens"
    assert "prefers-color-scheme: dark" in page
    assert page == html_page(comparison())


def test_every_picture_has_a_name_a_description_and_a_named_axis() -> None:
    found = pictures(html_page(comparison()))
    assert len(found) == len(QUANTITIES) + 3
    for picture in found:
        assert picture.get("aria-label")
        assert "2000 · kill" in (picture.findtext(f"{SVG}desc") or "")
        assert any(re.search(r", ms$|partition-s$|^partition-seconds per run, mean$", each) for each in texts(picture))


def test_each_value_is_a_dot_that_leads_to_its_run() -> None:
    page = html_page(comparison())
    outage = pictures(page)[4]
    assert len(places(outage)) == 80
    rows = dict(re.findall(r'<td><span id="(run-\d+)" title="([^"]+)">', page))
    for link in outage.iter(f"{SVG}a"):
        (circle,) = link
        assert rows[(link.get("href") or "").removeprefix("#")] == circle.get("data-run")
    longest = re.findall(r'<span id="run-\d+" title="[^"]+">.*?<td>([\d,]+)</td><td><code>understudy replay', page)
    assert len(longest) == 80
    assert longest == sorted(longest, key=lambda text: -int(text.replace(",", "")))


def test_of_many_runs_the_largest_values_are_dots_on_curves() -> None:
    runs = [run for seed in (1, 2) for run in group(f"g{seed}", 250, 1_000.0 * seed, seed=seed)]
    page = html_page(compare(runs, ("seed",), {}))
    outage = pictures(page)[4]
    assert len(list(outage.iter(f"{SVG}path"))) == 2
    assert len(places(outage)) == 2 * WORST
    assert "that the pictures name, longest outage first" in page


def test_the_lines_of_the_groups_differ_in_colour_or_dashes() -> None:
    runs = [run for seed in range(30) for run in group(f"g{seed}", 40, 1_000.0 + seed, seed=seed)]
    page = html_page(compare(runs, ("seed",), {}))
    assert f"The pictures show the first {DRAWN_GROUPS} groups; 6 more are below." in page
    lines = [path.attrib for path in pictures(page)[0].iter(f"{SVG}path")]
    assert len(lines) == DRAWN_GROUPS
    assert len({(line["stroke"], line.get("stroke-dasharray")) for line in lines}) == DRAWN_GROUPS


def test_names_are_escaped_in_html() -> None:
    page = html_page(comparison(observation("<b>", [1.0], session_timeout_ms=6000, fault='<script>"&')))
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert pictures(page)


def test_json_has_the_numbers_in_the_units_it_names() -> None:
    page = json.loads(as_json(comparison()))
    assert page["units"]["outage"] == "ms"
    short, long = page["groups"]
    assert short["settings"] == {"session_timeout_ms": "2000", "fault": "kill"}
    outage = short["quantities"]["outage"]
    assert 1_800 < outage["p50"] < 2_200
    assert outage["intervals"]["p50"][0] < outage["p50"] < outage["intervals"]["p50"][1]
    assert outage["intervals"]["p99"] is None
    assert outage["change"]["verdict"] == "changed"
    assert -4_400 < outage["change"]["p50_difference"] < -3_600
    assert "change" not in long["quantities"]["outage"]
    assert page["worst"]["outage"][0]["command"].startswith("understudy replay runs/long-")


CUT = [
    incomplete(observation(f"cut-{number}", [6_000.0], session_timeout_ms=6000, fault="kill"), "broker-4 has no log", 2)
    for number in range(5)
]


def test_the_pages_say_how_many_runs_are_left_out_and_why() -> None:
    left_out = comparison(*CUT)
    head = render(left_out).partition("\n\n")[0].splitlines()
    assert head == [
        "80 runs, 80 failovers, 2 groups by session_timeout_ms, fault",
        "  compared with session_timeout_ms=6000",
        "  5 runs left out, because records are missing; --incomplete also uses runs with missing records",
        *(
            line
            for number in range(3)
            for line in (f"    cut-{number}: broker-4 has no log", f"      understudy replay runs/cut-{number}")
        ),
        "    and 2 others; --json lists all",
    ]
    html = html_page(left_out)
    assert (
        "<p>5 runs left out, because records are missing; --incomplete also uses runs with missing records.</p>" in html
    )
    assert "<td>cut-0</td><td>broker-4 has no log</td><td><code>understudy replay runs/cut-0</code></td>" in html
    page = json.loads(as_json(left_out))["incomplete"]
    assert page["used"] is False
    assert [run["run"] for run in page["runs"]] == [run.run for run in CUT]
    assert page["runs"][0] == {
        "run": "cut-0",
        "missing": "broker-4 has no log",
        "command": "understudy replay runs/cut-0",
    }


def test_the_pages_say_how_many_values_of_incomplete_runs_are_in_doubt() -> None:
    runs = [*group("short", 4, 2_000, session_timeout_ms=2000), *CUT]
    used = compare(runs, ("session_timeout_ms",), {}, incomplete=True)
    text = "5 runs used in spite of missing records, without 10 values in doubt"
    assert f"\n  {text}\n" in render(used)
    assert f"<p>{text}.</p>" in html_page(used)
    page = json.loads(as_json(used))
    assert page["incomplete"]["used"] is True
    assert [each["doubtful"] for each in page["groups"]] == [0, 10]


def test_pages_of_complete_runs_on_one_clock_mention_neither_missing_records_nor_clocks() -> None:
    page = render(comparison())
    assert "missing" not in page
    assert "clock" not in page


def test_the_pages_state_the_uncertainty_of_clocks_and_the_verdict_below_it() -> None:
    runs = [
        replace(run, within=dict.fromkeys(run.within, 3_000_000))
        for timeout in (2_000, 6_000)
        for run in group(f"t{timeout}", 20, timeout, session_timeout_ms=timeout)
    ]
    off = compare(runs, ("session_timeout_ms",), {"session_timeout_ms": "6000"})
    section = render(off).partition("outage, ms: ")[2].partition("\n\n")[0]
    assert section.splitlines()[1] == "  clocks of several machines: values are right within ±3,000"
    assert section.splitlines()[4].endswith(" below clock error")
    assert '"below clock error": the difference may come from the clocks of several machines alone.' in render(off)
    html = html_page(off)
    assert "is ready; clocks of several machines: values are right within ±3,000" in html
    assert ">below clock error</td>" in html
    outage = json.loads(as_json(off))["groups"][0]["quantities"]["outage"]
    assert (outage["within"], outage["change"]["within"], outage["change"]["verdict"]) == (
        3_000.0,
        6_000.0,
        "below clock error",
    )
