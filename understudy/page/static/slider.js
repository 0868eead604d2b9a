/** The timeline as a slider, for those who do not see its canvas: the moment in seconds, and in words. */

import { NODE } from "#catalogue";
import { setAttribute } from "#dom";
import { sentence } from "#story";
import { clock, nodeName, whose } from "#words";

/** While the moment moves by itself its value changes so often; a screen reader that reads it needs some time. */
const MOVING_EVERY_MS = 1000;

/**
 * Keeps the attributes of a slider. Its value is the time since the first record.
 *
 * Args:
 *   element: has the role `slider`.
 *   history, catalogue, player: as in `Player`.
 *   completeness: the stretches in which records are missing.
 */
export class Slider {
  constructor(element, history, catalogue, player, completeness) {
    this._element = element;
    this._history = history;
    this._catalogue = catalogue;
    this._player = player;
    this._completeness = completeness;
    this._drawnAt = -Infinity;
  }

  /** Whether a screen reader reads its value at each change. */
  get hasFocus() {
    return document.activeElement === this._element;
  }

  /** Set the value to the moment. */
  draw() {
    const { isPlaying, isLive, isAtEdge, n, us } = this._player;
    const now = performance.now();
    if ((isPlaying || isLive && isAtEdge) && now - this._drawnAt < MOVING_EVERY_MS) {
      return;
    }
    this._drawnAt = now;
    const { first, last } = this._catalogue;
    const [value, end] = [us - first, Math.max(last, us) - first];
    setAttribute(this._element, "aria-valuemax", (end / 1e6).toFixed(3));
    setAttribute(this._element, "aria-valuenow", (value / 1e6).toFixed(3));
    const words = `${clock(value)} of ${clock(end)}: ${this._words(n)}${this._missing(us)}`;
    setAttribute(this._element, "aria-valuetext", words);
  }

  _missing(us) {
    const names = [...new Set(this._completeness.at(us).map(whose))];
    return names.length === 0 ? "" : `; records of ${names.join(", ")} are missing`;
  }

  _words(n) {
    if (n === 0) {
      return "before the first record";
    }
    const record = this._history.recordAt(n - 1);
    return `${nodeName(record[NODE])} ${sentence(record)}`;
  }
}
