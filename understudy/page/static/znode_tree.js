/** The tree of znodes as it was at the moment that is shown, and what this moment changes in it. */

import { DATA, INCARNATION, NODE, TYPE } from "#catalogue";
import { byId, h, keyed, setAttribute, setText } from "#dom";
import { UNKNOWN, ZnodeRows, changedAt, znodeAt } from "#znode_rows";
import { count, nodeName, uncertain } from "#words";

/** How many znodes that a moment changes have a row in any case. */
const MOST_CHANGED = 12;
/** How long a znode that is gone keeps its row, in microseconds. */
const GHOST_US = 8_000_000;
const MANY = 2000;
const MANY_EVERY_MS = 250;
const EPOCH = "/controller_epoch";
/** Records by which a session takes its znodes with it, and those that say what a broker has found. */
const WITH_SESSION = new Set(["SessionExpired", "ProcessExiting"]);
const FOUND = new Set(["WatchFired", "BrokersChanged", "ContextLoaded", "TopicsChanged"]);

/** Draws the tree. Its rows are reached by one tab stop, and the arrow keys go from row to row. */
export class ZnodeTree {
  constructor(history, player, completeness) {
    this._history = history;
    this._player = player;
    this._completeness = completeness;
    this._tree = new ZnodeRows();
    this._list = byId("znode-rows");
    this._rows = [];
    this._wanted = [];
    this._focused = "/controller";
    this._drawn = { key: "", at: -Infinity };
    this._changes = 0;
    this._list.addEventListener("keydown", (event) => this._onKey(event));
    this._list.addEventListener("click", (event) => {
      const row = this._rowOf(event.target.closest("li"));
      if (row !== undefined) {
        this._focus(row.path);
        this._toggle(row);
      }
    });
    byId("znode-topic").addEventListener("input", ({ target }) => {
      this._tree.topic = target.value.trim();
      this._redraw();
    });
  }

  /** Give the znodes among parts of the picture a row. A lesson that shows one first shows the tree in its frame. */
  want(names) {
    this._wanted = names.filter((name) => name.startsWith("tree:/")).map((name) => name.slice("tree:".length));
    setAttribute(document.body, "data-tree", names[0]?.startsWith("tree:") ?? false);
    this._redraw();
  }

  /** Draw the state at a moment; of many topics at most four times a second while time goes on. */
  draw(state, us, isInDoubt) {
    const { body } = document;
    if (body.hasAttribute("data-folded") && !body.hasAttribute("data-tree")) {
      return;
    }
    const now = performance.now();
    const key = `${this._player.n} ${this._changes} ${us}`;
    const { isPlaying, isLive, isAtEdge } = this._player;
    const isMany = state.partitions.size > MANY && (isPlaying || isLive && isAtEdge);
    if (key === this._drawn.key || isMany && now - this._drawn.at < MANY_EVERY_MS) {
      return;
    }
    this._drawn = { key, at: now };
    const record = this._history.recordAt(this._player.n - 1);
    const changed = changedAt(state, record, MOST_CHANGED);
    this._rows = this._tree.list(state, [...changed, ...this._ghosts(state, us), ...this._wanted]);
    this._drawRows(state, us, notesOf(state, record));
    setText(byId("znode-changes"), summary(changed, record, isInDoubt));
  }

  /** The znodes that were deleted a moment ago. */
  _ghosts(state, us) {
    return [...state.zookeeper.deleted.entries()]
      .filter(([, at]) => us - this._history.timeAt(at - 1) <= GHOST_US).slice(-MOST_CHANGED).map(([path]) => path);
  }

  _drawRows(state, us, notes) {
    const items = keyed(this._list, this._rows.map(({ path }) => path), newRow);
    if (!items.has(this._focused)) {
      this._focused = this._rows[0].path;
    }
    for (const row of this._rows) {
      const item = items.get(row.path);
      const facts = row.left > 0 ? leftOut(row) : this._facts(state, row, us, notes.get(row.path) ?? []);
      const [sign, name, data, rest, tag] = item.children;
      setText(sign, row.below === 0 ? "" : row.isOpen ? "▾" : "▸");
      setText(name, row.left > 0 ? "" : `/${row.name}`);
      setText(data, facts.data);
      setText(rest, facts.rest);
      setText(tag, facts.tag);
      setAttribute(item, "class", facts.kind);
      setAttribute(item, "aria-level", row.level);
      setAttribute(item, "aria-expanded", row.below === 0 ? null : String(row.isOpen));
      setAttribute(item, "aria-label", [row.left > 0 ? "" : row.path, facts.data, facts.rest, facts.tag]
        .filter((text) => text !== "").join(", "));
      setAttribute(item, "tabindex", row.path === this._focused ? 0 : -1);
      item.style.setProperty("--level", row.level - 1);
    }
  }

  /** What a row says of its znode: its data, its facts in words, and what this moment does to it. */
  _facts(state, row, us, notes) {
    const { n } = this._player;
    const found = znodeAt(state, row.path);
    const at = state.zookeeper.deleted.get(row.path);
    if (found === null && at !== undefined) {
      const isNow = at === n;
      const tag = [...(isNow ? [`deleted now ${byWhom(this._history.recordAt(n - 1))}`] : []), ...notes].join("; ");
      return { data: "", rest: isNow ? "none" : `none: deleted ${this._when(at, us)}`, tag, kind: "gone" };
    }
    if (found === null) {
      const rest = row.path === "/controller" ? "none on record" : row.isOpen ? "" : `${row.below} below`;
      return { data: "", rest, tag: notes.join("; "), kind: notes.length > 0 ? "now" : null };
    }
    const isNow = found.changed === n;
    const word = found.created === found.changed ? "created" : "changed";
    const since = found.changed === null ? `since ${UNKNOWN}` : isNow ? "" : `${word} ${this._when(found.changed, us)}`;
    const below = row.below > 0 && !row.isOpen ? `${row.below} below` : "";
    const version = found.version === null ? "" : `version ${found.version}`;
    const rest = [version, ...ownerOf(found, state), since, below].filter(Boolean);
    const by = isNow ? byWhom(this._history.recordAt(n - 1)) : "";
    const tag = [...(isNow ? [`${word} now ${by}`] : []), ...notes].join("; ");
    return { data: found.data, rest: rest.join(" · "), tag, kind: isNow || notes.length > 0 ? "now" : null };
  }

  /** How long ago record `number` was, counted from 1, and who wrote it. The two moments may be of two clocks. */
  _when(number, us) {
    const record = this._history.recordAt(number - 1);
    const current = this._history.recordAt(this._player.n - 1);
    const within = this._completeness.within(
      [record[NODE], record[INCARNATION]], [current[NODE], current[INCARNATION]], us,
    );
    return `${uncertain(us - this._history.timeAt(number - 1), within)} ago ${byWhom(record)}`;
  }

  _toggle(row) {
    this._tree.toggle(row);
    this._redraw();
  }

  _redraw() {
    this._changes += 1;
    this._player.version += 1;
  }

  _rowOf(item) {
    return this._rows.find(({ path }) => path === item?.dataset.path);
  }

  _focus(path) {
    const items = this._list.keyedChildren;
    setAttribute(items.get(this._focused) ?? items.get(path), "tabindex", -1);
    this._focused = path;
    setAttribute(items.get(path), "tabindex", 0);
    items.get(path).focus();
  }

  _onKey(event) {
    const place = this._rows.findIndex(({ path }) => path === this._focused);
    const row = this._rows[place];
    const steps = { ArrowDown: place + 1, ArrowUp: place - 1, Home: 0, End: this._rows.length - 1 };
    if (row === undefined || event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    if (event.key in steps) {
      this._focus((this._rows[steps[event.key]] ?? row).path);
    } else if (event.key === "Enter") {
      this._toggle(row);
    } else if (event.key === "ArrowRight") {
      this._tree.open.add(row.path);
      this._redraw();
    } else if (event.key === "ArrowLeft" && row.isOpen && this._tree.open.delete(row.path)) {
      this._redraw();
    } else if (event.key === "ArrowLeft" && row.level > 1) {
      this._focus(row.parent);
    } else if (event.key !== "ArrowLeft") {
      return;
    }
    event.stopPropagation();
    event.preventDefault();
  }
}

function newRow(path) {
  return h("li", { role: "treeitem", "data-path": path, "data-part": `tree:${path}` },
    h("span.sign", { "aria-hidden": "true" }), h("code.name"), " ", h("code.data"), " ", h("span.rest"), " ",
    h("b.tag"));
}

function leftOut({ left, parent }) {
  return { data: "", rest: `${count(left, "more znode")} below ${parent}: Enter lists more`, tag: "", kind: "more" };
}

/** Whose session a znode goes with. */
function ownerOf({ owner, session, epoch }, state) {
  if (owner === null) {
    return [];
  }
  const life = state.nodes.get(owner)?.life;
  const isAway = life === "dead" || life === "paused";
  const who = `ephemeral, of ${nodeName(owner)}${isAway ? ` (${life})` : ""}, session ${session ?? UNKNOWN}`;
  return epoch === null ? [who] : [who, `broker epoch ${epoch}`];
}

/** Who has changed a znode by a record, or has seen it changed. */
function byWhom(record) {
  const { fault } = record[DATA];
  if (WITH_SESSION.has(record[TYPE]) || fault === "expire") {
    return "with its session";
  }
  if (record[TYPE] === "FaultInjected") {
    return "by hand";
  }
  return `${FOUND.has(record[TYPE]) ? "as seen " : ""}by ${nodeName(record[NODE])}`;
}

/** What is under way at znodes: writes without an outcome, and what the record that is shown says of one. */
function notesOf(state, record) {
  const notes = new Map();
  const note = (path, text) => notes.set(path, [...notes.get(path) ?? [], text]);
  for (const [name, node] of state.nodes) {
    for (const [, { paths, purpose }] of node.writes) {
      [...new Set(paths)].forEach((path) => note(path, `${nodeName(name)} is writing (${purpose})`));
    }
  }
  const { path, kind, fence, offered, known, switched_off: isOff, fenced, epoch_zk_version: version } =
    record?.[DATA] ?? {};
  const who = record === undefined ? "" : nodeName(record[NODE]);
  if (record?.[TYPE] === "WatchFired") {
    note(path, `watch of ${who}: ${kind}`);
  } else if (fence === "zk.controller-epoch") {
    note(EPOCH, `a write of ${who} expects version ${offered}, not ${known}: ${isOff ? "passes" : "refused"}`);
  } else if (record?.[TYPE] === "ZkWrite" && fenced) {
    note(EPOCH, `a write of ${who} expects version ${version}`);
  }
  return notes;
}

/** The sentence above the tree. */
function summary(changed, record, isInDoubt) {
  const doubt = isInDoubt ? " Records before this moment are missing: the tree may be wrong." : "";
  const number = changed.length === MOST_CHANGED ? record[DATA].partitions?.length ?? changed.length : changed.length;
  return (number === 0 ? "This moment changes none." : `This moment changes ${count(number, "znode")}.`) + doubt;
}
