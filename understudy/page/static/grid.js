/** The partitions: a grid of partitions × brokers that draws only the rows in sight. */

import { byId, setText, sized, themeColour } from "#dom";
import { isInternal } from "#catalogue";
import { get } from "#fold";
import { IN_DOUBT } from "#completeness";
import { count } from "#words";

const ROW = 22;
const NAME_WIDTH = 150;
const MANY = 5000;
const MANY_EVERY_MS = 250;

/** Which partitions the filter of the page shows. */
const FILTERS = {
  all: () => true,
  wrong: (row) => row.isLeaderless || row.isUnderReplicated || row.isLagging,
  leaderless: (row) => row.isLeaderless,
  "under-replicated": (row) => row.isUnderReplicated,
  "out-of-date": (row) => row.isLagging,
};

/**
 * Draws the grid, and lets a click choose a partition.
 *
 * Args:
 *   player: the moment that is shown.
 *   onChoose: is called with a topic and a partition's number as text.
 *   isInDoubt: returns whether the records behind the state at a moment are missing in part.
 */
export class GridView {
  constructor(player, onChoose, isInDoubt) {
    this._player = player;
    this._onChoose = onChoose;
    this._isInDoubt = isInDoubt;
    this._scroller = byId("grid");
    this._canvas = byId("grid-canvas");
    this._spacer = byId("grid-spacer");
    this._topic = byId("grid-topic");
    this._filter = byId("grid-filter");
    this._state = null;
    this._rows = [];
    this._listed = { key: "", at: -Infinity };
    this._chosen = null;
    /** Whether somebody has chosen, and not this page. */
    this._isFixed = false;
    this._canvas.addEventListener("click", (event) => this._choose(this._rowAt(event.offsetY)));
    this._scroller.addEventListener("keydown", (event) => this._onKey(event));
  }

  /** The partition that is chosen, as [topic, partition]; null where none is. */
  get chosen() {
    return this._chosen;
  }

  /** Choose a partition until another one is chosen. */
  choose(topic, partition) {
    this._chosen = [topic, partition];
    this._isFixed = true;
  }

  /** Choose the first of some partitions that exists in a state, or leave the choice to `suggest`. */
  chooseFirst(partitions, state) {
    const found = partitions.find((each) => state.partitions.at(...each) !== undefined);
    this._isFixed = found !== undefined;
    this._chosen = found ?? this._chosen;
  }

  /** Choose a partition if none is chosen: `wanted`, the one before, the first with trouble, or the first. */
  suggest(state, wanted) {
    if (this._isFixed) {
      return;
    }
    this._chosen = wanted ?? this._chosen;
    if (this._chosen === null || wanted === null && state.partitions.at(...this._chosen) === undefined) {
      this._list(state);
      const own = this._rows.filter(({ topic }) => !isInternal(topic));
      const rows = own.length > 0 ? own : this._rows;
      const first = rows.find((row) => row.isLeaderless || row.isUnderReplicated) ?? rows[0];
      this._chosen = first === undefined ? this._chosen : [first.topic, first.partition];
    }
  }

  draw(state) {
    this._state = state;
    this._list(state);
    this._spacer.style.height = `${this._rows.length * ROW}px`;
    const brokers = brokerIds(state);
    this._draw(state, brokers);
  }

  /** Draw the same rows where they are now, after the grid was scrolled. */
  drawAgain() {
    if (this._state !== null) {
      this._draw(this._state, brokerIds(this._state));
    }
  }

  /** List the rows that the filter shows; of many partitions at most four times a second. */
  _list(state) {
    const doubt = this._isInDoubt() ? IN_DOUBT : "";
    const key = `${this._player.n} ${this._filter.value} ${this._topic.value}${doubt}`;
    const now = performance.now();
    const isMany = this._rows.length > MANY;
    if (key === this._listed.key || isMany && now - this._listed.at < MANY_EVERY_MS) {
      return;
    }
    this._listed = { key, at: now };
    const matches = FILTERS[this._filter.value] ?? FILTERS.all;
    const wanted = this._topic.value.trim();
    const dead = deadBrokers(state);
    const rows = [];
    const totals = { all: 0, leaderless: 0, underReplicated: 0 };
    for (const topic of [...state.partitions.keys()].sort()) {
      if (wanted !== "" && !topic.includes(wanted)) {
        continue;
      }
      const found = [];
      for (const [partition, written] of state.partitions.get(topic)) {
        const row = rowOf(topic, partition, written, dead, state);
        totals.all += 1;
        totals.leaderless += row.isLeaderless ? 1 : 0;
        totals.underReplicated += row.isUnderReplicated ? 1 : 0;
        if (matches(row)) {
          found.push(row);
        }
      }
      rows.push(...found.sort((a, b) => a.partition - b.partition));
    }
    this._rows = rows;
    setText(byId("grid-summary"), `${count(totals.all, "partition")}${doubt}, ${totals.leaderless} without a live `
      + `leader${doubt}, ${totals.underReplicated} under-replicated${doubt}`
      + `${rows.length === totals.all ? "" : `; ${rows.length} shown`}`);
  }

  _draw(state, brokers) {
    const { context, width, height } = sized(this._canvas);
    const colours = Object.fromEntries(
      ["text", "faint", "track", "accent", "fault", "running", "paused", "page", "chosen"]
        .map((name) => [name, themeColour(`--${name}`)]),
    );
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    const column = Math.max(26, Math.min(70, (width - NAME_WIDTH - 90) / Math.max(brokers.length, 1)));
    const top = this._scroller.scrollTop;
    const first = Math.floor(top / ROW);
    const dead = deadBrokers(state);
    for (let index = first; index < Math.min(this._rows.length, first + Math.ceil(height / ROW) + 1); index += 1) {
      const y = index * ROW - top + ROW + ROW / 2;
      this._drawRow(context, { row: this._rows[index], y, width, column, brokers, dead, state, colours });
    }
    context.fillStyle = colours.page;
    context.fillRect(0, 0, width, ROW);
    context.fillStyle = colours.faint;
    context.textAlign = "left";
    context.fillText("partition", 6, ROW / 2);
    context.fillText("epoch", NAME_WIDTH + brokers.length * column + 10, ROW / 2);
    context.textAlign = "center";
    brokers.forEach((broker, index) => {
      context.fillText(String(broker), NAME_WIDTH + (index + 0.5) * column, ROW / 2);
    });
    context.textAlign = "left";
  }

  _drawRow(context, { row, y, width, column, brokers, dead, state, colours }) {
    if (this._chosen !== null && this._chosen[0] === row.topic && this._chosen[1] === row.partition) {
      context.fillStyle = colours.chosen;
      context.fillRect(0, y - ROW / 2, width, ROW);
    }
    context.fillStyle = row.isLeaderless ? colours.fault : colours.text;
    context.fillText(clipped(context, `${row.topic}-${row.partition}`, NAME_WIDTH - 24), 6, y);
    if (row.isLeaderless || row.isUnderReplicated) {
      context.fillText(row.isLeaderless ? "✕" : "▽", NAME_WIDTH - 16, y);
    }
    brokers.forEach((broker, index) => {
      const cell = cellOf(row, broker, state);
      if (cell !== null) {
        drawCell(context, NAME_WIDTH + (index + 0.5) * column, y, cell, dead.has(broker), colours);
      }
    });
    context.fillStyle = colours.faint;
    context.fillText(`${row.written[3]}${row.isLagging ? " · old in a cache" : ""}`,
      NAME_WIDTH + brokers.length * column + 10, y);
  }

  _rowAt(offsetY) {
    return this._rows[Math.floor((offsetY - ROW + this._scroller.scrollTop) / ROW)];
  }

  _choose(row) {
    if (row !== undefined) {
      this.choose(row.topic, row.partition);
      this._onChoose(row.topic, row.partition);
    }
  }

  _onKey(event) {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    const at = this._rows.findIndex((row) => row.topic === this._chosen?.[0] && row.partition === this._chosen?.[1]);
    const next = Math.max(0, Math.min(this._rows.length - 1, at + (event.key === "ArrowDown" ? 1 : -1)));
    this._choose(this._rows[next]);
    const y = next * ROW;
    const { scrollTop, clientHeight } = this._scroller;
    if (y < scrollTop || y > scrollTop + clientHeight - 2 * ROW) {
      this._scroller.scrollTop = y - clientHeight / 2;
    }
  }
}

function rowOf(topic, partition, written, dead, state) {
  const [, , leader, epoch, isr, version] = written;
  const live = isr.filter((broker) => !dead.has(broker)).length;
  let replicas = 0;
  let isLagging = false;
  for (const node of state.nodes.values()) {
    if (node.broker_id < 0) {
      continue;
    }
    replicas += node.believes.at(topic, partition) === undefined ? 0 : 1;
    const known = node.metadata.at(topic, partition);
    isLagging ||= node.life === "running" && node.metadata_controller >= 0
      && (known === undefined || known[3] < epoch || known[5] < version);
  }
  return {
    topic, partition, written, isLagging,
    isLeaderless: leader < 0 || dead.has(leader),
    isUnderReplicated: live < Math.max(replicas, isr.length),
  };
}

function cellOf(row, broker, state) {
  const [, , leader, , isr] = row.written;
  if (leader === broker) {
    return "leader";
  }
  if (isr.includes(broker)) {
    return "inSync";
  }
  const replicas = state.nodes.get(state.controller?.node)?.replica_states.at(row.topic, row.partition);
  const replica = replicas === undefined ? undefined : get(replicas, String(broker));
  if (replica === "NewReplica" || replica?.startsWith("ReplicaDeletion")) {
    return "moving";
  }
  const believes = state.nodes.get(`broker-${broker}`)?.believes.at(row.topic, row.partition);
  return replica !== undefined || believes !== undefined ? "out" : null;
}

function drawCell(context, x, y, cell, isDead, colours) {
  context.beginPath();
  context.globalAlpha = isDead ? 0.5 : 1;
  context.lineWidth = 2;
  if (cell === "leader") {
    context.fillStyle = isDead ? colours.fault : colours.accent;
    context.roundRect(x - 9, y - 8, 18, 16, 4);
    context.fill();
    context.fillStyle = colours.page;
    context.textAlign = "center";
    context.fillText("L", x, y + 1);
    context.textAlign = "left";
  } else {
    context.strokeStyle = cell === "out" ? colours.fault : cell === "moving" ? colours.paused : colours.running;
    context.fillStyle = context.strokeStyle;
    context.arc(x, y, 5, 0, 2 * Math.PI);
    context.setLineDash(cell === "moving" ? [3, 3] : []);
    context[cell === "inSync" ? "fill" : "stroke"]();
    context.setLineDash([]);
  }
  context.globalAlpha = 1;
  if (isDead) {
    context.strokeStyle = colours.fault;
    context.beginPath();
    context.moveTo(x - 9, y + 8);
    context.lineTo(x + 9, y - 8);
    context.stroke();
  }
}

function brokerIds(state) {
  const ids = new Set();
  for (const node of state.nodes.values()) {
    if (node.broker_id >= 0) {
      ids.add(node.broker_id);
    }
  }
  return [...ids].sort((a, b) => a - b);
}

function deadBrokers(state) {
  const dead = new Set();
  for (const node of state.nodes.values()) {
    if (node.broker_id >= 0 && node.life === "dead") {
      dead.add(node.broker_id);
    }
  }
  return dead;
}

function clipped(context, text, width) {
  if (context.measureText(text).width <= width) {
    return text;
  }
  const kept = Math.max(3, Math.floor(text.length * width / context.measureText(text).width) - 1);
  return `…${text.slice(-kept)}`;
}
