/** The story: the records that have words, around the moment, with the chain of causes of the one that is chosen. */

import { h, keyed, setAttribute, setText } from "#dom";
import { DATA, INCARNATION, NODE, SEQ, TYPE, US, WORDS, epochOf } from "#catalogue";
import { clock, duration, epochClass, fields, nodeName, relative, uncertain } from "#words";

const BEFORE = 30;
const AFTER = 12;

/**
 * Shows a list of sentences; a click on one shows its moment and why it happened.
 *
 * Args:
 *   list: the element `ol` of the sentences.
 *   why: the element for the chain of causes.
 *   history, catalogue, player: as in `Player`.
 *   completeness: by how much times of several clocks may be wrong.
 */
export class Story {
  constructor(list, why, history, catalogue, player, completeness) {
    this._list = list;
    this._why = why;
    this._history = history;
    this._catalogue = catalogue;
    this._player = player;
    this._completeness = completeness;
    this._shown = "";
    this._current = null;
    this._explained = "";
  }

  /** Draw the sentences around the moment. */
  draw() {
    const { story } = this._catalogue;
    const now = story.countBelow(this._player.n);
    const shown = `${this._catalogue.detail} ${now} ${Math.min(story.length - now, AFTER)}`;
    if (shown !== this._shown) {
      this._shown = shown;
      this._drawList(now);
    }
    const current = this._player.n - 1;
    const explained = `${current} ${this._completeness.version}`;
    if (explained !== this._explained) {
      this._explained = explained;
      this._drawWhy(current);
    }
  }

  _drawList(now) {
    const { story } = this._catalogue;
    const numbers = [];
    for (let index = Math.max(0, now - BEFORE); index < Math.min(story.length, now + AFTER); index += 1) {
      numbers.push(story.at(index));
    }
    const items = keyed(this._list, numbers.map(String), (key) => this._item(Number(key)));
    for (const [key, item] of items) {
      setAttribute(item, "class", Number(key) >= this._player.n ? "later" : null);
      setAttribute(item, "aria-current", now > 0 && Number(key) === story.at(now - 1) ? "step" : null);
    }
    this._current = now > 0 ? items.get(String(story.at(now - 1))) : null;
  }

  /** Show the current sentence of a list that has changed. It measures the page, so other parts are drawn before. */
  scroll() {
    if (this._current !== null) {
      scrollIntoView(this._list, this._current);
      this._current = null;
    }
  }

  _item(n) {
    const record = this._history.recordAt(n);
    return h(
      "li",
      {},
      h(
        "button",
        { type: "button", onclick: () => this._player.toRecord(n + 1) },
        h("time", {}, clock(record[US] - this._catalogue.first)),
        h("b", { class: epochClass(epochOf(record)) }, nodeName(record[NODE])),
        h("span", {}, ` ${sentence(record)}`),
      ),
    );
  }

  _drawWhy(n) {
    this._why.replaceChildren();
    if (n < 0) {
      return;
    }
    const record = this._history.recordAt(n);
    const chain = this._catalogue.causes(record, (number) => this._history.recordAt(number));
    const causes = chain.map((number) => this._cause(number, record));
    this._why.append(
      h("p", {}, h("b", {}, nodeName(record[NODE])), ` ${sentence(record)}`),
      h("p.line", {}, `${record[NODE]}, incarnation ${record[INCARNATION]}, line ${record[SEQ]}: ${record[TYPE]}`
        + this._withinOfStart(record)),
      causes.length === 0
        ? h("p", {}, first(record))
        : h("ol.causes", { "aria-label": "causes, nearest first" }, ...causes),
      h("details", {}, h("summary", {}, "the record"), h("pre", {}, JSON.stringify(record[DATA], null, 1))),
    );
  }

  /** By how much the time of a record since the first one may be wrong, in words. */
  _withinOfStart(record) {
    const within = this._within(record, this._history.recordAt(0));
    return within === 0 ? "" : `, at its time ± ${within === null ? "?" : duration(within)}`;
  }

  _within(record, other) {
    const writer = (each) => [each[NODE], each[INCARNATION]];
    return this._completeness.within(writer(record), writer(other), record[US]);
  }

  _cause(n, effect) {
    const record = this._history.recordAt(n);
    return h(
      "li",
      {},
      h(
        "button",
        { type: "button", onclick: () => this._player.toRecord(n + 1) },
        "because ",
        h("b", {}, nodeName(record[NODE])),
        ` ${sentence(record)} `,
        h("time", {}, `(${before(effect[US] - record[US], this._within(effect, record))})`),
      ),
    );
  }
}

/** The sentence of a record; its type and fields where it has none. */
export function sentence(record) {
  return record[WORDS] ?? `${record[TYPE]}: ${fields(record[DATA])}`;
}

function first(record) {
  return record[TYPE] === "FaultInjected" ? "An experiment or a person did this." : "No record led to this one.";
}

function before(us, within) {
  return within === 0 ? relative(us, "before") : `${uncertain(us, within)} before`;
}

function scrollIntoView(list, item) {
  const box = list.getBoundingClientRect();
  const own = item.getBoundingClientRect();
  if (own.top < box.top || own.bottom > box.bottom) {
    list.scrollTop += own.top - box.top - box.height * 0.6;
  }
}

/** Write the current sentence into a live region, so that a screen reader says it at each step. */
export function announce(element, record, first) {
  const said = record === null ? "" : `${clock(record[US] - first)}: ${nodeName(record[NODE])} ${sentence(record)}`;
  setText(element, said);
}
