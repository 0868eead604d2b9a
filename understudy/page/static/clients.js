/** The user's processes of a test in virtual time: a card for each, with what it did last. */

import { LIFE_SIGNS, LIFE_WORDS } from "#cluster";
import { US, WORDS } from "#catalogue";
import { byId, h, keyed, setAttribute, setText } from "#dom";
import { clock } from "#words";

const SHOWN = 5;

/** Draws the cards. The list is hidden if the run has no such process. */
export class ClientsView {
  constructor(history, catalogue, player) {
    this._history = history;
    this._catalogue = catalogue;
    this._player = player;
    this._list = byId("clients");
  }

  /** Draw the cards at a moment. */
  draw(state) {
    const nodes = [...state.nodes].filter(([, { role }]) => role === "client");
    setAttribute(this._list, "hidden", nodes.length === 0);
    const names = nodes.map(([name]) => name).sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
    const cards = keyed(this._list, names, card);
    for (const [name, node] of nodes) {
      const item = cards.get(name);
      setAttribute(item, "data-life", node.life);
      setText(item.querySelector(".sign"), LIFE_SIGNS[node.life]);
      setText(item.querySelector(".word"), `${LIFE_WORDS[node.life]}, start ${node.incarnation}`);
      this._drawSentences(item.querySelector("ol"), name);
    }
  }

  _drawSentences(list, name) {
    const sentences = this._catalogue.sentencesOf(name);
    const until = sentences.countBelow(this._player.n);
    const numbers = [];
    for (let place = Math.max(0, until - SHOWN); place < until; place += 1) {
      numbers.push(sentences.at(place));
    }
    keyed(list, numbers.map(String), (key) => this._sentence(Number(key)));
  }

  _sentence(number) {
    const record = this._history.recordAt(number);
    const time = clock(Math.round(record[US] - this._catalogue.first));
    return h("li", {}, h("time", {}, time), ` ${record[WORDS]}`);
  }
}

function card(name) {
  return h(
    "li.client", { "data-node": name, "data-part": `client:${name}` },
    h("h3", {}, name),
    h("p.life", {}, h("span.sign", { "aria-hidden": "true" }), h("span.word", {})),
    h("ol", { "aria-label": `what ${name} did last` }),
  );
}
