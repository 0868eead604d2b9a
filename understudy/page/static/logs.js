/** The replicas of the chosen partition as upright logs: one height is one offset in every column. */

import { LEADERSHIP, integer } from "#fold";
import { byId, explain, s, setAttribute, setPhrase, setText, typeScale } from "#dom";
import { nodeName, relative } from "#words";

/** How many offsets the axis has at least, and at most if nothing was cut away below them. */
const LEAST_OFFSETS = 8;
const MOST_OFFSETS = 160;
/** Pixels above the axis, for a label, and below it. */
const ABOVE = 16;
const BELOW = 6;
/** The height of a plot until it is measured. */
const HEIGHT = 136;
/** The least distance of two numbers of the axis, and how many it has at most. */
const LABEL = 22;
const MOST_LABELS = 10;
/** How long what a truncation has removed is shown, in microseconds of the run. */
const GHOST_US = 8_000_000;
const EPOCH_COLOURS = 6;
/** The height of a line of text. */
const LINE = 14;
/** The least height of a block with a text in it. */
const LETTERS = 13;
/** The bar of a log, in per cent of its column. */
const BAR = { left: 34, width: 30 };
/** How much of a group's name a mark shows. */
const MOST_LETTERS = 7;

/**
 * Draws the logs of a partition into the columns of `ClusterView`, and its leadership among the znodes. The plots are
 * as high as the page lets their row be.
 */
export class LogsView {
  /**
   * @param {Catalogue} catalogue says whether the run has records of logs
   * @param {function(): void} onHeight is called when the row has another height; the page is to be drawn again
   */
  constructor(catalogue, onHeight) {
    this._catalogue = catalogue;
    this._onHeight = onHeight;
    this._isr = byId("isr");
    this._brokers = byId("brokers");
    this._height = HEIGHT;
    this._measured = null;
    this._sizes = new ResizeObserver(() => this._measure());
  }

  /** Take the height that the row has now. All plots stand in one row. */
  _measure() {
    const height = Math.floor(this._measured.clientHeight / typeScale());
    if (height > 0 && height !== this._height) {
      this._height = height;
      this._onHeight();
    }
  }

  /** Observe the first of the plots, which changes if columns come and go. */
  _observe(plot) {
    if (plot !== null && plot !== this._measured) {
      this._sizes.disconnect();
      this._measured = plot;
      this._sizes.observe(plot);
    }
  }

  /**
   * Draw the logs at a moment.
   * @param {Object} state
   * @param {[string, string]|null} chosen topic and partition
   * @param {number} us
   * @param {Completeness} completeness whose log is shown as it was on record last
   * @param {ClusterView} cluster whose columns are filled
   * @param {Object[]} committed the committed offsets of groups in this partition (`GroupsView`)
   */
  draw(state, chosen, us, completeness, cluster, committed = []) {
    this._observe(this._brokers.querySelector(".plot"));
    const written = chosen === null ? undefined : state.partitions.at(...chosen);
    drawLeadership(this._isr, chosen, written);
    const replicas = chosen === null ? [] : replicasOf(state, chosen, cluster.columns);
    const axis = axisOf(replicas, chosen === null ? undefined : state.acknowledged.at(...chosen), committed, us);
    const { hasLogs } = this._catalogue;
    setAttribute(this._brokers, "data-logs", hasLogs);
    setText(byId("logs-none"), hasLogs || chosen === null ? "" : withoutLogs());
    replicas.forEach((replica, place) => {
      const isLast = completeness.ofAt(replica.name, us) !== undefined;
      const name = chosen.join("-");
      const about = { ...replica, ...axis, written, isLast, partition: name, us, isFirst: place === 0, committed };
      drawReplica(replica.cell, about, this._height, cluster.isReachable);
    });
    if (chosen === null) {
      [...cluster.columns.values()].forEach((column) => empty(column.querySelector(".replica")));
    }
  }
}

/** Says why no replica has a log: the log of a KRaft quorum names leaders and ISRs, and no offsets. */
function withoutLogs() {
  return document.body.dataset.metadata === "quorum"
    ? "The log of the quorum has no records of what replicas contain."
    : "The event log has no records of replicas (understudy.events.logs=false).";
}

/** The leadership that ZooKeeper has of the partition. */
function drawLeadership(element, chosen, written) {
  const [name, text] = element.children;
  setAttribute(element, "hidden", chosen === null);
  if (chosen === null) {
    return;
  }
  const partition = chosen.join("-");
  setAttribute(element, "data-part", `isr:${partition}`);
  setText(name, partition);
  if (written === undefined) {
    setPhrase(text, "no state so far");
  } else {
    const leader = written[LEADERSHIP.leader];
    const isr = written[LEADERSHIP.isr].join(" ");
    setPhrase(text, `leader ${leader < 0 ? "none" : leader}, ISR ${isr || "empty"}, `
      + `leader epoch ${written[LEADERSHIP.leader_epoch]}«, version ${written[LEADERSHIP.partition_epoch]}»`);
  }
  explain(element, `/brokers/topics/${chosen[0]}/partitions/${chosen[1]}/state: ${text.textContent}`);
}

/** Each column with its cell for a replica, and the log if the broker has one. */
function replicasOf(state, [topic, partition], columns) {
  return [...columns].map(([name, column]) => {
    const node = state.nodes.get(name);
    const log = node?.logs.at(topic, partition);
    return { name, node, cell: column.querySelector(".replica"), log: log === undefined ? undefined : numbers(log) };
  });
}

/** A log with numbers for offsets, which may be texts in the records of a damaged log. */
function numbers(log) {
  const number = (value, other) => (value === null ? other : Number(integer(value)));
  const start = number(log.start, 0);
  const end = number(log.end, start);
  const epochs = log.epochs.map(([epoch, offset]) => [epoch, number(offset, 0)]);
  const cut = log.cut === null ? null : { from: number(log.cut.from), end: number(log.cut.end), us: log.cut.us };
  return { ...log, start, end, epochs, cut, highWatermark: number(log.high_watermark, null) };
}

/** The offsets that all columns show, and the first offset that no producer has an answer for. */
function axisOf(replicas, acknowledged, committed, us) {
  const logs = replicas.filter(({ log }) => log !== undefined).map(({ log }) => log);
  const isAcknowledged = acknowledged !== undefined && logs.some((log) => log.topic_id === acknowledged.topic_id);
  const until = isAcknowledged ? Number(integer(acknowledged.offset)) + 1 : null;
  const cuts = logs.filter(({ cut }) => isShown(cut, us)).flatMap(({ cut }) => [cut.from, cut.end]);
  const marks = [...logs.flatMap((log) => [log.end, log.highWatermark ?? log.end]), ...cuts, ...(until === null ? []
    : [until]), ...committed.map(({ offset }) => offset)];
  const highest = Math.max(0, ...marks);
  const first = logs.length === 0 ? 0 : Math.min(...logs.map(({ start }) => start));
  const deepest = Math.min(highest - MOST_OFFSETS, ...cuts.map((cut) => cut - 2));
  const lowest = Math.max(Math.min(...marks, highest) - 2, deepest);
  const from = Math.max(Math.min(first, highest), Math.min(lowest, highest - LEAST_OFFSETS), 0);
  return { from, to: Math.max(highest, from + LEAST_OFFSETS), acknowledged: until };
}

function isShown(cut, us) {
  return cut !== null && us >= cut.us && us - cut.us < GHOST_US;
}

/** What ZooKeeper's ISR says of a replica, in words. */
function placeOf(written, id) {
  if (written === undefined) {
    return "";
  }
  return written[LEADERSHIP.leader] === id ? "leader"
    : written[LEADERSHIP.isr].includes(id) ? "in sync" : "out of sync";
}

function empty(cell) {
  explain(cell, null);
  cell.replica = null;
  if (cell.drawnKey !== "") {
    cell.drawnKey = "";
    [...cell.children].forEach((each) => each.replaceChildren());
    cell.firstElementChild.phrase = "";
  }
}

function drawReplica(cell, about, height, isReachable) {
  const { name, node, log, written, isLast, partition } = about;
  const id = node?.broker_id ?? -1;
  const place = placeOf(written, id);
  const isReplica = log !== undefined || place === "leader" || place === "in sync";
  setAttribute(cell, "data-part", isReplica ? `replica:${name}:${partition}` : null);
  setAttribute(cell, "data-place", isReplica ? place.replaceAll(" ", "-") : null);
  if (!isReplica) {
    empty(cell);
    return;
  }
  const ghost = log !== undefined && isShown(log.cut, about.us) ? log.cut : null;
  const key = JSON.stringify([partition, place, log, ghost, isLast, about.from, about.to, about.acknowledged, height,
    about.committed, about.isFirst]);
  if (cell.drawnKey !== key) {
    cell.drawnKey = key;
    const [title, plot] = cell.children;
    setPhrase(title, `${place}${log === undefined || log.leader_epoch < 0 ? "" : `«, epoch ${log.leader_epoch}»`}`);
    const marks = log === undefined ? [] : bars({ ...about, ghost }, height);
    plot.replaceChildren(...(log === undefined ? [] : [s("svg", { height, "aria-hidden": "true" }, ...marks)]));
  }
  cell.replica = { place, end: log?.end, highWatermark: log?.highWatermark };
  explain(cell, wordsOf(about, place, ghost), isReachable || log !== undefined);
}

function wordsOf({ name, log, acknowledged, isLast, us, partition }, place, ghost) {
  if (log === undefined) {
    return `${nodeName(name)}, replica of ${partition}: ${place}`;
  }
  const watermark = log.highWatermark === null ? "not recorded" : log.highWatermark;
  return `${nodeName(name)}, replica of ${partition}: ${place}, believes it is ${log.role || "neither"} `
    + `in leader epoch ${log.leader_epoch}: log ${log.start} to ${log.end}, high watermark ${watermark}`
    + `${acknowledged === null ? "" : `; acknowledged below ${acknowledged}`}`
    + `${ghost === null ? "" : `; ${ghost.from} to ${ghost.end} cut away ${relative(us - ghost.us, "ago")}`}`
    + `${isLast ? "; later records are missing" : ""}`;
}

/** The class that colours a leader epoch. They begin at 0, and are no controller epochs. */
function epochColour(epoch) {
  return `epoch-${Math.max(epoch, 0) % EPOCH_COLOURS}`;
}

/** The marks of a log, from bottom to top, with those that cross all columns below the others. */
function bars(about, height) {
  const { from, to, log } = about;
  const each = (height - ABOVE - BELOW) / (to - from);
  const y = (offset) => height - BELOW - (Math.min(Math.max(offset, from), to) - from) * each;
  const { lines, numbers } = axis(about, y, height);
  return [
    ...lines, ...blocks(about, y, each), ...ghostOf(about, y), ...across(about, y), ...watermark(about, y), ...numbers,
    s("text", { class: "end", x: `${BAR.left + BAR.width / 2}%`, y: y(Math.max(log.end, about.ghost?.end ?? 0)) - 4 },
      log.end < from ? `▾ ${log.end}` : String(log.end)),
  ];
}

/** Lines at round offsets, and numbers of these in the first column. */
function axis({ from, to, isFirst }, y, height) {
  const most = Math.max(1, Math.min(MOST_LABELS, (height - ABOVE - BELOW) / LABEL));
  const step = roundStep((to - from) / most);
  const [lines, numbers] = [[], []];
  for (let offset = Math.ceil(from / step) * step; offset <= to; offset += step) {
    lines.push(s("line", { class: "axis", x1: "-8", x2: "100%", y1: y(offset), y2: y(offset) }));
    if (isFirst) {
      numbers.push(s("text", { class: "axis", x: 0, y: y(offset) + 4 }, String(offset)));
    }
  }
  return { lines, numbers };
}

/** The smallest of 1, 2, 5, 10 … that is not below a number. */
function roundStep(number) {
  const power = 10 ** Math.floor(Math.log10(Math.max(number, 1)));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= number);
}

/** The bar of a log: a block for each leader epoch, divided into records if there is room. */
function blocks({ from, log }, y, each) {
  const parts = [];
  const epochs = log.epochs.length > 0 ? log.epochs : [[log.leader_epoch, log.start]];
  const place = { x: `${BAR.left}%`, width: `${BAR.width}%` };
  epochs.forEach(([epoch, offset], index) => {
    const bottom = Math.max(offset, log.start, from);
    const top = Math.min(epochs[index + 1]?.[1] ?? log.end, log.end);
    if (top <= bottom) {
      return;
    }
    const size = y(bottom) - y(top);
    parts.push(s("rect", { class: `block ${epochColour(epoch)}`, ...place, y: y(top), height: size }));
    for (let line = bottom + 1; each >= 5 && line < top; line += 1) {
      parts.push(s("line", { class: "tick", x1: place.x, x2: `${BAR.left + BAR.width}%`, y1: y(line), y2: y(line) }));
    }
    const middle = clearMiddle(y(top), y(bottom), log.highWatermark === null ? Infinity : y(log.highWatermark));
    if (middle !== null) {
      parts.push(s("text", { class: "epoch", x: `${BAR.left + BAR.width / 2}%`, y: middle + 4 }, `e${epoch}`));
    }
  });
  if (log.start < from && log.end > from) {
    parts.push(s("line", { class: "torn", x1: place.x, x2: `${BAR.left + BAR.width}%`, y1: y(from), y2: y(from) }));
  }
  return parts;
}

/** The middle of a block, or of its larger part beside the line of a high watermark; null without room for a text. */
function clearMiddle(top, bottom, line) {
  const parts = Math.abs((top + bottom) / 2 - line) < LETTERS / 2 ? [[top, line], [line, bottom]] : [[top, bottom]];
  const [from, to] = parts.reduce((one, other) => (other[1] - other[0] > one[1] - one[0] ? other : one));
  return to - from < LETTERS ? null : (from + to) / 2;
}

/** What the last truncation has removed: above the log or, as far as the log has grown again, beside it. */
function ghostOf({ ghost, log, from }, y) {
  if (ghost === null) {
    return [];
  }
  const rect = (bottom, top, x, width) => s("rect", {
    class: "ghost", x: `${x}%`, width: `${width}%`, y: y(top), height: Math.max(y(bottom) - y(top), 3),
  });
  const above = Math.max(ghost.from, log.end, from);
  if (above >= ghost.end) {
    return ghost.end <= from ? [] : [rect(Math.max(ghost.from, from), ghost.end, BAR.left - 9, 8)];
  }
  const size = y(above) - y(ghost.end);
  const x = `${BAR.left + BAR.width / 2}%`;
  const label = size < LINE ? [] : [s("text", { class: "cut", x, y: y(ghost.end) + size / 2 + 4 }, "cut")];
  return [rect(above, ghost.end, BAR.left, BAR.width), ...label];
}

/** What was acknowledged, as a line across all columns; and the committed offsets of groups. */
function across({ acknowledged, isFirst, committed, written, node, from, log }, y) {
  const parts = [];
  if (acknowledged !== null && acknowledged >= from) {
    const at = y(acknowledged);
    parts.push(s("line", { class: "acknowledged", x1: -14, x2: "100%", y1: at, y2: at }));
    if (isFirst) {
      // Away from the text of a high watermark that is at the line, or less than a line of text above it.
      const above = log.highWatermark === null ? -1 : at - y(log.highWatermark);
      const line = above >= 0 && above < LINE ? at + LINE : at - 3;
      parts.push(s("text", { class: "acknowledged", x: "100%", y: line }, "✓", s("tspan.more", {}, " acked")));
    }
  }
  if (written?.[LEADERSHIP.leader] === node?.broker_id) {
    for (const { group, offset } of committed) {
      parts.push(s("g", { class: "committed" }, s("title", {}, `committed by group ${group}: ${offset}`),
        s("text", { x: `${BAR.left - 1}%`, y: y(offset) + 4 }, s("tspan.more", {}, `${shortened(group)} `), "▸")));
    }
  }
  return parts;
}

function shortened(name) {
  return name.length > MOST_LETTERS ? `${name.slice(0, MOST_LETTERS - 1)}…` : name;
}

function watermark({ log, name, partition, from }, y) {
  if (log.highWatermark === null || log.highWatermark < from) {
    return [];
  }
  const at = y(log.highWatermark);
  return [s(
    "g", { class: "watermark", "data-part": `high-watermark:${name}:${partition}` },
    s("title", {}, `high watermark of ${nodeName(name)}: ${log.highWatermark}`),
    s("line", { x1: `${BAR.left - 4}%`, x2: `${BAR.left + BAR.width + 4}%`, y1: at, y2: at }),
    s("text", { x: `${BAR.left + BAR.width + 5}%`, y: at + 4 }, s("tspan.more", {}, "HW "), String(log.highWatermark)),
  )];
}
