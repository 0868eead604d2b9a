"""What the strips of the timeline show as a fault, and what as normal, in shapes that need no colour."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page

from tests.understudy.page.scripts import load
from understudy.foundation.eventlog.fences import ROUTINE_FENCES, Fence


def record(us: int, node: str, name: str, seq: int, **data: Any) -> list[Any]:
    return [us, node, 1, seq, name, None, 0, 0, data, None, None]


def fault(us: int, seq: int, name: str, target: str) -> list[Any]:
    return record(us, "testbed", "FaultInjected", seq, fault=name, target=target, role="")


def fence(us: int, seq: int, name: str, *, off: bool = False) -> list[Any]:
    return record(us, "broker-1", "FenceHit", seq, fence=name, what="x", offered=1, known=2, switched_off=off)


CATALOGUE = """
(records) => {
  const catalogue = new Catalogue();
  records.forEach((each) => catalogue.add(each));
  const marks = (lane) => lane.map(({ text, isQuiet }) => [text, isQuiet]);
  return { faults: marks(catalogue.lanes.faults), fences: marks(catalogue.lanes.fences) };
}
"""

# The pixels of a lane in a colour that only its loud marks have, and whether the middle of its first mark is empty.
DRAWN = """
(records) => {
  document.body.innerHTML = '<canvas style="display: block; width: 600px"></canvas>';
  for (const [name, colour] of Object.entries({
    "--fault": "#ff0000", "--fence": "#0000ff", "--faint": "#00ff00", "--track": "#ffffff",
    "--text": "#000000", "--accent": "#000000", "--page": "#000000", "--running": "#000000", "--paused": "#000000",
  })) document.documentElement.style.setProperty(name, colour);
  const catalogue = new Catalogue();
  records.forEach((each) => catalogue.add(each));
  const canvas = document.querySelector("canvas");
  const timeline = new Timeline(canvas, catalogue, { us: catalogue.last, version: 1, isLive: false });
  timeline.draw();
  const context = canvas.getContext("2d");
  const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
  const count = (red, green, blue) => {
    let found = 0;
    for (let place = 0; place < data.length; place += 4) {
      found += data[place] === red && data[place + 1] === green && data[place + 2] === blue;
    }
    return found;
  };
  const middle = (row, us) => {
    const y = 18 + row * 22 + 9;
    return [...context.getImageData(Math.round(timeline._x(us)), y, 1, 1).data].slice(0, 3);
  };
  const middles = records.map(([us]) => [middle(1, us), middle(2, us)]);
  return { fault: count(255, 0, 0), fence: count(0, 0, 255), middles };
}
"""
WHITE = [255, 255, 255]


@pytest.fixture
def scripts(page: Page) -> Page:
    load(page)
    return page


def test_the_first_start_of_a_broker_is_no_fault_and_a_later_one_ends_one(scripts: Page) -> None:
    found = scripts.evaluate(
        CATALOGUE,
        [
            fault(0, 1, "start", "zookeeper"),
            fault(1, 2, "start", "broker-1"),
            record(2, "broker-1", "ProcessStarted", 1),
            fault(3, 3, "kill", "broker-1"),
            fault(4, 4, "start", "broker-1"),
            fault(5, 5, "pause", "broker-1"),
            fault(6, 6, "continue", "broker-1"),
            fault(7, 7, "pause", "broker-1"),
            fault(8, 8, "resume", "broker-1"),
            fault(9, 9, "heal", "all links"),
        ],
    )
    assert found["faults"] == [
        ["kill broker-1", False],
        ["start broker-1", True],
        ["pause broker-1", False],
        ["continue broker-1", True],
        ["pause broker-1", False],
        ["resume broker-1", True],
        ["heal all links", True],
    ]


def test_an_armed_answer_that_is_given_is_a_fault(scripts: Page) -> None:
    given = record(1, "broker-2", "AnswerInjected", 1, api="Produce", error="NOT_CONTROLLER")
    words = "broker-2 answers Produce with NOT_CONTROLLER, as it was armed to do"
    assert scripts.evaluate(CATALOGUE, [given])["faults"] == [[words, False]]


def test_a_fence_is_quiet_if_every_change_of_a_leader_meets_it(scripts: Page) -> None:
    names = [fence.value for fence in Fence]
    on, off = (scripts.evaluate(CATALOGUE, [fence(0, 1, name, off=off) for name in names]) for off in (False, True))
    assert {name for name, (_, is_quiet) in zip(names, on["fences"], strict=True) if is_quiet} == ROUTINE_FENCES
    assert not any(is_quiet for _, is_quiet in off["fences"])


def test_what_is_normal_is_drawn_as_a_ring_whatever_its_colour(scripts: Page) -> None:
    normal = [fault(500_000, 1, "heal", "all links"), fence(1_000_000, 1, "broker.fetch-leader-epoch")]
    end = record(2_000_000, "testbed", "StepReached", 9, step="end")
    quiet = scripts.evaluate(DRAWN, [*normal, end])
    assert (quiet["fault"], quiet["fence"]) == (0, 0)
    assert quiet["middles"][0][0] == WHITE
    assert quiet["middles"][1][1] == WHITE
    loud = [fault(500_000, 1, "kill", "broker-1"), fence(1_000_000, 1, "broker.controller-epoch")]
    drawn = scripts.evaluate(DRAWN, [*loud, end])
    assert drawn["fault"] > 0
    assert drawn["fence"] > 0
    assert drawn["middles"][0][0] != WHITE
    assert drawn["middles"][1][1] != WHITE
