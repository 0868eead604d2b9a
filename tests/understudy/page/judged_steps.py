"""Judges the step of a lesson that a browser shows: its words, the part that proves them, and the line between."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page

from devtools.lesson_steps import frame_of

LEAST_PX = 12
"""Smallest size of type that can be read from a seat in a class."""
OF_WORDS = """(least) => {
  const words = document.getElementById("words");
  const wrong = [];
  const seen = (box, owner, what) => {
    const inside = box.left >= 0 && box.top >= 0 && box.right <= innerWidth && box.bottom <= innerHeight;
    const hit = document.elementFromPoint((box.left + box.right) / 2, (box.top + box.bottom) / 2);
    if (!inside) {
      wrong.push(`${what} is not in the window`);
    } else if (!(owner.contains(hit) || hit?.contains(owner))) {
      wrong.push(`${what} is covered by ${hit?.outerHTML.slice(0, 80)}`);
    }
  };
  if (document.documentElement.scrollHeight > innerHeight || document.documentElement.scrollWidth > innerWidth) {
    wrong.push("the page scrolls");
  }
  if (words.scrollHeight > words.clientHeight + 1) {
    wrong.push(`the words scroll: ${words.scrollHeight} of ${words.clientHeight} pixels`);
  }
  for (const each of document.querySelectorAll("#lesson-step :is(h2, p, label, li)")) {
    const text = each.textContent.trim().slice(0, 40);
    const zoom = Number(getComputedStyle(document.body).zoom) || 1;
    if (parseFloat(getComputedStyle(each).fontSize) * zoom < least) { wrong.push(`${text}: the type is too small`); }
    if (text !== "") { for (const box of each.getClientRects()) { seen(box, each, text); } }
  }
  for (const id of ["back", "next"]) {
    seen(document.getElementById(id).getBoundingClientRect(), document.getElementById(id), `#${id}`);
  }
  return wrong;
}"""
OF_MARK = """([part, least]) => {
  const mark = document.querySelector("[data-mark]");
  if (mark === null) { return ["no part is marked"]; }
  const wrong = [];
  const box = mark.getBoundingClientRect();
  if (box.left < 0 || box.top < 0 || box.right > innerWidth || box.bottom > innerHeight) {
    wrong.push(`the mark is not in the window: ${JSON.stringify(box)} of ${innerWidth} x ${innerHeight}`);
  }
  const hit = document.elementFromPoint((box.left + box.right) / 2, (box.top + box.bottom) / 2);
  // The thin line of a request lets hits through. Only the time at the bottom could cover it.
  const isSeen = mark instanceof SVGElement
    ? hit !== null && hit.closest("footer, dialog, header") === null
    : mark.contains(hit) || hit?.contains(mark);
  if (!isSeen) {
    wrong.push(`the mark is covered by ${hit?.outerHTML.slice(0, 80)}`);
  }
  if (mark.dataset.part !== part) { wrong.push(`${mark.dataset.part} is marked instead of ${part}`); }
  const texts = document.createTreeWalker(mark, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode.textContent.trim();
    const owner = texts.currentNode.parentElement;
    const isShown = text !== "" && owner.checkVisibility();
    if (isShown && parseFloat(getComputedStyle(owner).fontSize) < least) {
      wrong.push(`${text}: the type is too small`);
    }
  }
  return wrong;
}"""
POINTS_OF_LINE = """(side) => {
  const frame = document.querySelector(`iframe[data-side=${side}]`);
  const box = frame.getBoundingClientRect();
  const border = (box.width - frame.clientWidth / frame.offsetWidth * box.width) / 2;
  const path = document.querySelector("#line path");
  const place = path.getScreenCTM();
  return [...Array(Math.ceil(path.getTotalLength() / 3)).keys()].map((step) => {
    const point = path.getPointAtLength(3 * step).matrixTransform(place);
    return [point.x - box.left - border, point.y - box.top - border];
  });
}"""
COVERED = """(points) => {
  const texts = document.createTreeWalker(document.getElementById("cluster"), NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  const covered = new Set();
  while (texts.nextNode()) {
    const { currentNode } = texts;
    const owner = currentNode.parentElement;
    // Requests move across the gaps, and labels between columns lie over them.
    const isCounted = owner.checkVisibility() && owner.closest("[data-mark], .request, .api, #moment-table") === null;
    if (currentNode.textContent.trim() === "" || !isCounted) { continue; }
    range.selectNodeContents(currentNode);
    const end = owner.closest(".waiting")?.getBoundingClientRect().right ?? Infinity;
    // A line of text is higher than its letters, and may be cut off.
    for (const { left, right, top, bottom } of range.getClientRects()) {
      if (points.some(([x, y]) => x > left + 1 && x < Math.min(right, end) - 1 && y > top + 4 && y < bottom - 4)) {
        covered.add(`the line covers ${currentNode.textContent}`);
      }
    }
  }
  return [...covered];
}"""
CUT_OFF = """() => {
  const cluster = document.getElementById("cluster");
  const more = cluster.scrollHeight - cluster.clientHeight;
  return more > 1 ? [`${more} pixels of the picture are below the window`] : [];
}"""
LOGS_BELOW = """() => {
  const { bottom } = document.getElementById("cluster").getBoundingClientRect();
  const ends = [...document.querySelectorAll(".replica .block")].map((each) => each.getBoundingClientRect().bottom);
  const below = Math.max(0, ...ends) - bottom;
  return below > 2 ? [`${below} pixels of the logs are below the picture`] : [];
}"""
CLIENTS_WITHOUT_ROOM = """() => [...document.querySelectorAll("#clients .client[data-wanted]")]
  .filter((card) => card.checkVisibility() && card.scrollHeight > card.clientHeight + 1)
  .map((card) => `${card.dataset.part} is cut off`)"""
SIDE_BY_SIDE = """() => {
  const boxes = [...document.querySelectorAll("figure:not([hidden])")].map((each) => each.getBoundingClientRect());
  return boxes.every(({ left, right, top, bottom }) =>
    left >= 0 && top >= 0 && right <= innerWidth && bottom <= innerHeight);
}"""
NARROW = 800
"""Width below which one run is shown, the one that the step is about."""


def wrong_at(page: Page, stop: dict[str, Any] | None, width: int) -> list[str]:
    """Return the faults of the step that is shown, at the size that the window has."""
    wrong: list[str] = page.evaluate(OF_WORDS, LEAST_PX)
    if stop is not None:
        side = page.locator("figure[aria-current] iframe").get_attribute("data-side")
        frame = frame_of(page, str(side))
        wrong += frame.evaluate(OF_MARK, [stop["show"][0], LEAST_PX])
        if page.locator("#line").is_visible():
            wrong += frame.evaluate(COVERED, page.evaluate(POINTS_OF_LINE, side))
        else:
            wrong.append("no line leads from the words to the mark")
        wrong += frame.evaluate(CUT_OFF if width >= NARROW else LOGS_BELOW)
        wrong += frame.evaluate(CLIENTS_WITHOUT_ROOM)
    if width >= NARROW and stop is not None:
        wrong += [] if page.evaluate(SIDE_BY_SIDE) else ["a run is not in the window"]
        shown = page.locator("figure:visible").count()
        wrong += [] if shown == (2 if stop["beside"] else 1) else [f"{shown} runs are shown"]
    return wrong
