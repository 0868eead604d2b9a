"""What the page's scripts make of missing records and of several clocks: doubts, uncertainties and hatched strips."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page

from tests.understudy.page.scripts import load

IN_DOUBT = """
([missing, reigns, moments]) => {
  const completeness = new Completeness({ missing });
  return moments.map((us) => completeness.isInDoubt(us, reigns));
}
"""
WITHIN = """
([clocks, one, other, moments]) => {
  const completeness = new Completeness({ missing: [], clocks });
  return moments.map((us) => completeness.within(one, other, us));
}
"""

# Whether a strip is hatched at three moments, what the pointer in the first broker's strip shows, and the brokers.
HATCHED = """
([missing, records]) => {
  document.body.innerHTML = '<canvas style="display: block; width: 600px"></canvas>';
  for (const name of ["text", "faint", "track", "accent", "fault", "fence", "running", "paused", "page"]) {
    document.documentElement.style.setProperty(`--${name}`, name === "text" ? "#000000" : "#ffffff");
  }
  const catalogue = new Catalogue();
  records.forEach((each) => catalogue.add(each));
  const canvas = document.querySelector("canvas");
  const player = { us: catalogue.last, version: 1, isLive: false };
  const timeline = new Timeline(canvas, catalogue, player, new Completeness({ missing }));
  timeline.draw();
  const context = canvas.getContext("2d");
  const dark = (row, us) => {
    const { data } = context.getImageData(Math.round(timeline._x(us)) - 15, 18 + row * 22, 30, 18);
    let found = 0;
    for (let place = 0; place < data.length; place += 4) {
      found += data[place + 3] > 0 && data[place] < 128;
    }
    return found > 0;
  };
  const strips = [0, 1, 2, 3, 4, 5].map((row) => [500_000, 1_500_000, 2_500_000].map((us) => dark(row, us)));
  timeline._hover = { x: timeline._x(1_500_000), y: 18 + 4 * 22 + 9 };
  return { strips, hover: timeline._hoverText(), rows: timeline._lives().map(([node]) => node) };
}
"""


def stretch(node: str, from_us: int, until_us: int, kind: str = "no end") -> dict[str, Any]:
    place = {"node": node, "incarnation": 1, "from_us": from_us, "until_us": until_us}
    return {**place, "kind": kind, "evidence": "it was seen", "witness": "broker-1/1#2"}


def clock(incarnations: list[list[object]], points: list[list[int]]) -> dict[str, Any]:
    return {"machine": "", "boot": "", "evidence": "messages", "incarnations": incarnations, "points": points}


@pytest.fixture
def scripts(page: Page) -> Page:
    load(page)
    return page


def test_a_count_is_in_doubt_from_a_stretch_until_a_controller_has_read_zookeeper_after_it(scripts: Page) -> None:
    reigns = [{"us": 150, "ready": 160}, {"us": 190, "ready": 310}, {"us": 300, "ready": 330}]
    moments = [99, 100, 165, 200, 315, 329, 330]
    found = scripts.evaluate(IN_DOUBT, [[stretch("broker-2", 100, 200)], reigns, moments])
    assert found == [False, True, True, True, True, True, False]
    never_read = scripts.evaluate(IN_DOUBT, [[stretch("broker-2", 100, 200)], [{"us": 300, "ready": None}], [400]])
    assert never_read == [True]


def test_missing_faults_put_a_count_in_doubt_only_while_they_are_missing(scripts: Page) -> None:
    for testbed in ("testbed", "simulator"):
        found = scripts.evaluate(IN_DOUBT, [[stretch(testbed, 100, 200)], [], [99, 100, 200, 201]])
        assert found == [False, True, True, False]


def test_the_uncertainty_between_two_clocks_is_interpolated_and_added_up(scripts: Page) -> None:
    clocks = [
        clock([["broker-1", 1]], [[0, 0]]),
        clock([["broker-2", 1]], [[100, 10], [200, 30]]),
        clock([["broker-2", 2], ["broker-3", 1]], [[100, 5]]),
    ]
    moments = [0, 100, 150, 200, 999]
    assert scripts.evaluate(WITHIN, [clocks, ["broker-1", 1], ["broker-2", 1], moments]) == [10, 10, 20, 30, 30]
    assert scripts.evaluate(WITHIN, [clocks, ["broker-2", 1], ["broker-3", 1], [150]]) == [25]
    assert scripts.evaluate(WITHIN, [clocks, ["broker-3", 1], ["broker-2", 2], [150]]) == [0]
    assert scripts.evaluate(WITHIN, [[], ["broker-3", 1], ["broker-2", 2], [150]]) == [0]


def test_an_uncertainty_that_is_not_known_is_none(scripts: Page) -> None:
    clocks = [clock([], []), clock([["broker-2", 1]], [])]
    assert scripts.evaluate(WITHIN, [clocks, ["broker-1", 1], ["broker-2", 1], [1]]) == [None]


@pytest.mark.parametrize(
    ("witness", "place"),
    [
        ("broker-1/3#42", ["broker-1", 3, 42]),
        ("a/b/1#2", ["a/b", 1, 2]),
        ("broker-1", None),
        ("broker-1/3#x", None),
        ("", None),
    ],
)
def test_the_witness_of_a_stretch_names_a_record(scripts: Page, witness: str, place: list[object] | None) -> None:
    assert scripts.evaluate("(witness) => placeOf(witness)", witness) == place


def test_a_strip_is_hatched_only_while_records_that_it_is_made_of_are_missing(scripts: Page) -> None:
    records = [
        [us, node, 1, 1, "StepReached", None, 0, 0, {"step": ""}, None, None]
        for us, node in ((0, "broker-1"), (3_000_000, "testbed"))
    ]
    missing = [stretch("broker-1", 1_000_000, 2_000_000), stretch("broker-2", 1_200_000, 1_900_000, "no log")]
    drawn = scripts.evaluate(HATCHED, [missing, records])
    assert drawn["rows"] == ["broker-1", "broker-2"]
    controller, faults, fences, leaderless, *brokers = drawn["strips"]
    assert faults == [False] * 3
    for strip in (controller, fences, leaderless, *brokers):
        assert strip == [False, True, False]
    assert drawn["hover"] == "1.500 s · records of broker 1 are missing"
    of_testbed = scripts.evaluate(HATCHED, [[stretch("testbed", 1_000_000, 2_000_000)], records])
    assert [any(strip) for strip in of_testbed["strips"]] == [False, True, False, False, False, False]


def test_a_run_that_has_only_not_ended_differs_from_one_whose_records_are_missing(scripts: Page) -> None:
    only_open = "(missing) => new Completeness({ missing }).isOnlyOpen"
    testbed = stretch("testbed", 1, 2, "not ended")
    assert scripts.evaluate(only_open, [testbed])
    assert not scripts.evaluate(only_open, [testbed, stretch("broker-1", 1, 2)])
