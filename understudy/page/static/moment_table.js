/** The moment as a table, for readers who do not see the picture: a row for each broker. */

import { byId, h, setText } from "#dom";

const TITLES = ["broker", "session", "process", "metadata", "replica", "log end", "high watermark", "groups"];
/** The place of the title that names the chosen partition. */
const REPLICA = 4;

/** Writes the table from the columns that were drawn last, as long as it is open. */
export class MomentTable {
  /** @param {function(): Map<string, Element>} columns returns the elements of the brokers, by node */
  constructor(columns) {
    this._columns = columns;
    this._details = byId("moment-table");
    this._head = this._details.querySelector("thead tr");
    this._body = this._details.querySelector("tbody");
    this._head.append(...TITLES.map((title) => h("th", { scope: "col" }, title)));
    this._partition = null;
    this._details.addEventListener("toggle", () => this.draw(this._partition));
  }

  /** @param {[string, string]|null} partition the topic and number of the partition that the columns show */
  draw(partition) {
    this._partition = partition;
    if (!this._details.open) {
      return;
    }
    setText(this._head.children[REPLICA], partition === null ? "replica" : `replica of ${partition.join("-")}`);
    const rows = [...this._columns().values()].map(cellsOf);
    while (this._body.children.length > rows.length) {
      this._body.lastElementChild.remove();
    }
    rows.forEach((cells, place) => {
      const row = this._body.children[place] ?? this._body.appendChild(emptyRow());
      cells.forEach((text, column) => setText(row.children[column], text));
    });
  }
}

function emptyRow() {
  return h("tr", {}, h("th", { scope: "row" }), ...TITLES.slice(1).map(() => h("td")));
}

/** What a column says, in the order of the titles. */
function cellsOf(column) {
  const words = (...selectors) => selectors.flatMap((each) => [...column.querySelectorAll(each)])
    .map(({ textContent }) => textContent).filter((text) => text !== "").join(", ");
  const { place = "none", end = "", highWatermark = "" } = column.querySelector(".replica").replica ?? {};
  const session = words(".session > span").replace(/^session: /, "");
  const metadata = words(".believed", ".behind").replace(/^metadata: /, "").replace("♛", "controller");
  const groups = [...column.querySelectorAll(".group")]
    .map((group) => [...group.querySelectorAll("p, li")].map(({ textContent }) => textContent).join(", "));
  return [words(".name", ".crown"), session, words(".word", ".role"), metadata, place || "not in sync", String(end),
    String(highWatermark ?? ""), groups.join("; ")];
}
