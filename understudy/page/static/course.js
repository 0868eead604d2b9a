/** The course of the line that leads to a part of the picture: along its gaps, so that it covers no text. */

import { byId } from "#dom";

/** How far a line runs above the columns. */
const ABOVE = 7;
/** How far a line from above comes in from the left end of its part, and one from the side from its upper end. */
const INSIDE = 12;
/** A part that begins so near to the left edge of its box is reached from the left. */
const NEAR = 24;
/** A part that begins so near to the top of its box is in the first row. */
const FIRST_ROW = 16;
/** How far a line runs above a box. */
const BETWEEN = 3;
/** How far it runs above a part of a second row, close below the first one. */
const BELOW_ROW = 1;

/**
 * The points of a line from the left edge of the window to a part, in pixels of the window. It enters at the height
 * of the first point, which has the place 0 across.
 *
 * @param {Element} part
 * @returns {[number, number][]}
 */
export function courseTo(part) {
  const own = part.getBoundingClientRect();
  const column = columnOf(own);
  // A mark of a plot is at the height of a number of the axis, and its line runs below that.
  const y = part.closest(".plot") === null ? inside(own.top, own.bottom) : own.bottom;
  if (part.closest("#requests") !== null && column?.after !== undefined && column.after.left < own.right) {
    return downTheGap(column.box, column.after, (own.top + own.bottom) / 2);
  }
  if (part.closest("#brokers, #requests") !== null && column !== null) {
    return intoColumn(column, own.left, y);
  }
  const box = (part.closest("#zookeeper, #clients") ?? part).getBoundingClientRect();
  if (own.left - box.left < NEAR) {
    return [[0, y], [own.left, y]];
  }
  // Above the box or, to a part of its second row, between the rows.
  const above = own.top - box.top < FIRST_ROW ? box.top - BETWEEN : own.top - BELOW_ROW;
  return fromAbove(inside(own.left, own.right), above, own.top);
}

/** The column that a part begins in, and those before and after it. */
function columnOf({ left }) {
  const columns = [...byId("brokers").children].map((each) => each.getBoundingClientRect());
  const place = columns.findLastIndex((each) => each.left <= left + 1);
  return place < 0 ? null : { box: columns[place], before: columns[place - 1], after: columns[place + 1] };
}

/** Along the gap before the column, or from the left edge of the window into the first one. */
function intoColumn({ box, before }, left, y) {
  if (before === undefined) {
    return [[0, y], [left, y]];
  }
  return [...downTheGap(before, box, y), [left, y]];
}

/** Above the columns to the gap between two of them, and down to a height in it. */
function downTheGap(before, after, y) {
  const gap = (before.right + after.left) / 2;
  const above = Math.max(after.top - ABOVE, byId("cluster").getBoundingClientRect().top + 2);
  return [[0, above], [gap, above], [gap, y]];
}

function fromAbove(x, above, y) {
  return [[0, above], [x, above], [x, y]];
}

function inside(from, to) {
  return from + Math.min(INSIDE, (to - from) / 2);
}
