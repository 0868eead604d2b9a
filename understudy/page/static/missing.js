/** The part of the page that lists which records are missing, and the clocks of the run. */

import { placeOf } from "#completeness";
import { byId, h, setAttribute, setText } from "#dom";
import { clock, count, duration, nodeName, whose } from "#words";

const MOST = 200;

/**
 * Lists the verdict; a click on a piece of evidence shows its record.
 *
 * Args:
 *   completeness, catalogue, player: the verdict, and what the moment is found and shown with.
 *   onRecord: is called with node, incarnation and sequence number of a record, to show it.
 */
export class MissingView {
  constructor(completeness, catalogue, player, onRecord) {
    this._completeness = completeness;
    this._catalogue = catalogue;
    this._player = player;
    this._onRecord = onRecord;
    byId("missing-mark").addEventListener("click", () => {
      byId("missing").scrollIntoView();
      byId("missing").focus();
    });
  }

  /** List the verdict, once it and the first record are there; `note` is a sentence about the clocks. */
  list(note) {
    const { rows, clocks } = this._completeness;
    const more = rows.length - MOST;
    setAttribute(byId("missing-mark"), "hidden", rows.length === 0);
    setText(byId("missing-mark"), this._completeness.isOnlyOpen ? "not ended in order" : "records are missing");
    setAttribute(byId("missing"), "hidden", rows.length === 0);
    byId("missing-rows").replaceChildren(
      ...rows.slice(0, MOST).map((row) => this._row(row)),
      ...(more > 0 ? [h("li", {}, `and ${count(more, "more finding")}`)] : []),
    );
    const several = clocks.length > 1 ? clocks.map(clockText) : [];
    setAttribute(byId("clocks"), "hidden", several.length === 0 && note === "");
    setText(byId("clocks-note"), note);
    byId("clocks-rows").replaceChildren(...several.map((text) => h("li", {}, text)));
  }

  /** Say in which stretches the moment is. */
  draw(us) {
    const names = [...new Set(this._completeness.at(us).map(whose))];
    setText(byId("missing-now"), names.length === 0 ? "" : `Records of ${names.join(", ")} are missing at this moment: `
      + "the last state on record is shown.");
  }

  /** The evidence of a stretch, with a button that shows its record. */
  evidence(row) {
    const place = placeOf(row.witness);
    return [
      `${row.evidence} `,
      place === null ? row.witness : h("button.link", { type: "button", onclick: () => this._onRecord(place) },
        `evidence: ${row.witness}`),
    ];
  }

  _row(row) {
    const { first } = this._catalogue;
    const incarnation = row.incarnation > 0 ? `, incarnation ${row.incarnation}` : "";
    return h(
      "li",
      {},
      h("b", {}, `${whose(row)}${incarnation}`),
      " ",
      h("button.link", { type: "button", onclick: () => this._player.toTime(row.from_us) },
        `from ${clock(row.from_us - first)} to ${clock(row.until_us - first)}`),
      ": ",
      ...this.evidence(row),
    );
  }
}

function clockText({ machine, boot, evidence, incarnations, points }, number) {
  const nodes = [...new Set(incarnations.map(([node]) => nodeName(node)))].join(", ") || "no node";
  const within = points.length === 0 ? "?" : duration(Math.max(...points.map(([, each]) => each)));
  const how = number === 0 ? "the reference" : `± ${within} at most, by ${evidence === "wall clock" ? "the wall clock"
    : evidence}`;
  return `${[machine, `boot ${boot}`].filter(Boolean).join(", ")}: ${nodes}; ${how}`;
}
