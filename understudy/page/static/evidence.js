/**
 * The parts of the picture that prove what a text says: brings them into view and marks them.
 * Their names are the values of `data-part`; a step of a lesson and the address of the page have lists of them.
 */

import { courseTo } from "#course";
import { byId, h, keyed, setAttribute } from "#dom";

/** How far a mark lies outside of its part, in pixels. */
const AROUND = 3;

/** Finds, marks and reports the parts that are wanted at one moment; at any other moment nothing is marked. */
export class Evidence {
  /**
   * @param {Player} player
   * @param {function(Object): void} report gets `shown`, the names of the parts that are drawn, and `line`, the points
   *   of a line from the left edge of the window, which is `of` pixels wide, to the first of them, or null, whenever
   *   one of them has changed
   */
  constructor(player, report) {
    this._player = player;
    this._report = report;
    this._names = [];
    this._n = -1;
    this._isNew = false;
    this._marked = [];
    this._reported = "";
    this._halos = h("div", { id: "halos", "aria-hidden": "true" });
    document.body.append(this._halos);
    window.addEventListener("scroll", () => this.draw(), { capture: true, passive: true });
    window.addEventListener("resize", () => this.bring());
    new ResizeObserver(() => this.bring()).observe(byId("cluster"));
  }

  /** The names of the parts that are marked at this moment. */
  get names() {
    return this._player.n === this._n ? this._names : [];
  }

  /** Marks parts for as long as the moment is the one that is shown now. */
  show(names) {
    this._names = names;
    this._n = this._player.n;
    this._isNew = true;
    this._reported = "";
  }

  /** Brings the parts into view again: there is another amount of room, or more above them. */
  bring() {
    this._isNew = this.names.length > 0;
    this.draw();
  }

  /** Marks the parts as they are drawn now. It measures the page, so all else is drawn before. */
  draw() {
    const parts = this._find();
    this._marked.filter((each) => !parts.some(([, part]) => part === each)).forEach(unmark);
    this._marked = parts.map(([, part]) => part);
    parts.forEach(([, part], place) => {
      setAttribute(part, "data-evidence", place + 1);
      setAttribute(part, "data-mark", place === 0);
    });
    if (this._isNew && parts.length > 0) {
      this._isNew = false;
      byId("cluster").scrollTop = 0;
      parts.toReversed().forEach(([, part]) => {
        // The footer stays above the lower end of the page, where the tree of znodes is.
        const block = part.closest("#tree") === null ? "nearest" : "center";
        part.scrollIntoView({ block, inline: "nearest" });
      });
    }
    this._drawHalos(parts);
    this._tell(parts);
  }

  /** The parts that are drawn, by their names. What is not drawn is shown by what it belongs to, once. */
  _find() {
    const found = new Map();
    for (const name of this.names) {
      const part = partOf(name);
      if (part !== null && ![...found.values()].includes(part)) {
        found.set(name, part);
      }
    }
    return [...found];
  }

  _drawHalos(parts) {
    const halos = keyed(this._halos, parts.map(([name]) => name), () => h("div"));
    for (const [name, part] of parts) {
      const box = part.getBoundingClientRect();
      const halo = halos.get(name);
      halo.style.left = `${box.left + window.scrollX - AROUND}px`;
      halo.style.top = `${box.top + window.scrollY - AROUND}px`;
      halo.style.width = `${box.width + 2 * AROUND}px`;
      halo.style.height = `${box.height + 2 * AROUND}px`;
      setAttribute(halo, "class", part.hasAttribute("data-mark") ? "halo first" : "halo");
    }
  }

  _tell(parts) {
    const line = parts.length === 0 ? null : { points: courseTo(parts[0][1]), of: window.innerWidth };
    const report = { shown: parts.map(([name]) => name), line };
    const text = JSON.stringify(report);
    if (text !== this._reported) {
      this._reported = text;
      this._report(report);
    }
  }
}

function unmark(part) {
  setAttribute(part, "data-evidence", null);
  setAttribute(part, "data-mark", null);
}

/** The element of a part; of a part that is not drawn now, the process or the row that it belongs to. Null if none. */
function partOf(name) {
  const [kind, ...places] = name.split(":");
  const wanted = [
    `[data-part="${CSS.escape(name)}"]`,
    ...places.map((place) => `[data-part="process:${CSS.escape(place)}"]`),
    ...places.map((place) => `.broker[data-node="${CSS.escape(place)}"]`),
    kind === "tree" ? "#tree" : "",
    ["isr", "znode"].includes(kind) || places.includes("zookeeper") ? "#zookeeper" : "",
  ];
  for (const selector of wanted.filter((each) => each !== "")) {
    const part = document.querySelector(selector);
    if (part !== null && part.getClientRects().length > 0) {
      return part;
    }
  }
  return null;
}

/** The partition that the first of these parts with one belongs to: "orders-0". Null if none has one. */
export function partitionShown(names) {
  const places = { replica: 2, "high-watermark": 2, isr: 1 };
  for (const name of names) {
    const [kind, ...rest] = name.split(":");
    if (Object.hasOwn(places, kind)) {
      return rest.slice(places[kind] - 1).join(":");
    }
  }
  return null;
}

/** The topic and the number of a partition, as the grid has them. */
export function splitPartition(partition) {
  const dash = partition.lastIndexOf("-");
  return [partition.slice(0, dash), partition.slice(dash + 1)];
}

/** Folds the panels below the picture, with a button that opens them again. */
export function foldPanels() {
  if (document.body.hasAttribute("data-folded") || document.getElementById("panels") !== null) {
    return;
  }
  const button = h("button", { type: "button", id: "panels", "aria-pressed": "false", onclick: toggle }, "All panels");
  function toggle() {
    const isFolded = document.body.hasAttribute("data-folded");
    setAttribute(document.body, "data-folded", !isFolded);
    setAttribute(button, "aria-pressed", String(isFolded));
  }
  document.body.setAttribute("data-folded", "");
  document.querySelector("footer .transport").append(button);
}

/** Hides the controls of the page, and leaves the keys of a presenter's remote to the lesson around it. */
export function present() {
  if (document.body.hasAttribute("data-present")) {
    return;
  }
  document.body.setAttribute("data-present", "");
  window.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches?.("input, select, textarea, dialog *")) {
      return;
    }
    event.stopImmediatePropagation();
    event.preventDefault();
    window.parent.postMessage({ key: event.key }, "*");
  }, { capture: true });
}
