/** The records of one partition: log end, high watermark and leader epochs of each replica. */

import { byId, h, keyed, s, setAttribute, setText } from "#dom";
import { nodeName } from "#words";

const MOST_OFFSETS = 80;
const WIDTH = 600;
const HEIGHT = 44;
const EPOCH_COLOURS = 6;

/** Draws the logs of the partition that is chosen. */
export class LogsView {
  constructor() {
    this._list = byId("logs");
  }

  /**
   * Draw the logs at a moment.
   * @param {Object} state
   * @param {[string, string]|null} chosen topic and partition
   * @param {number} us
   * @param {Completeness} completeness whose log is shown as it was on record last
   */
  draw(state, chosen, us, completeness) {
    const logs = chosen === null ? [] : logsOf(state, chosen);
    setText(byId("logs-of"), chosen === null ? "" : `${chosen[0]}-${chosen[1]}`);
    setText(byId("logs-none"), logs.length > 0 ? "" : noLogs(chosen));
    const end = Math.max(1, ...logs.map(({ log }) => log.end));
    const start = Math.max(Math.min(...logs.map(({ log }) => log.start)), end - MOST_OFFSETS);
    const rows = keyed(this._list, logs.map(({ name }) => name), () => row());
    const written = chosen === null ? undefined : state.partitions.at(...chosen);
    for (const { name, node, log } of logs) {
      const isLast = completeness.ofAt(name, us) !== undefined;
      drawRow(rows.get(name), { name, node, log, written, isLast }, Number.isFinite(start) ? start : 0, end);
    }
  }
}

function noLogs(chosen) {
  return chosen === null
    ? "Choose a partition in the grid."
    : "The event log has no records of this partition's logs (understudy.events.logs=false).";
}

function logsOf(state, [topic, partition]) {
  const found = [];
  for (const [name, node] of state.nodes) {
    const log = node.logs.at(topic, partition);
    if (log !== undefined) {
      found.push({ name, node, log });
    }
  }
  return found.sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
}

function row() {
  return h("li", {}, h("p", {}, h("b"), h("span")), s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img" }));
}

function drawRow(item, { name, node, log, written, isLast }, start, end) {
  const [title, drawing] = item.children;
  setText(title.children[0], nodeName(name));
  const isr = written?.[4].includes(node.broker_id) ?? false;
  const place = written?.[2] === node.broker_id ? "leader" : isr ? "in sync" : "out of sync";
  const text = ` ${place}, believes it is ${log.role || "neither"} in epoch ${log.leader_epoch}: `
    + `log ${log.start} to ${log.end}, high watermark ${log.high_watermark}`
    + `${isLast ? "; later records are missing" : ""}`;
  setText(title.children[1], text);
  setAttribute(item, "data-life", node.life);
  const key = JSON.stringify([isLast, log.start, log.end, log.high_watermark, log.epochs, start, end]);
  if (drawing.drawnKey === key) {
    return;
  }
  drawing.drawnKey = key;
  setAttribute(drawing, "aria-label", `${nodeName(name)}${text}`);
  drawing.replaceChildren(...bars(log, start, end));
}

/** The class that colours a leader epoch. They begin at 0, and are no controller epochs. */
function epochColour(epoch) {
  return `epoch-${Math.max(epoch, 0) % EPOCH_COLOURS}`;
}

function bars(log, start, end) {
  const x = (offset) => (Math.max(offset, start) - start) / (end - start) * (WIDTH - 40) + 10;
  const parts = [s("rect", { class: "track", x: x(start), y: 8, width: x(end) - x(start), height: 18, rx: 3 })];
  const epochs = log.epochs.length > 0 ? log.epochs : [[log.leader_epoch, log.start]];
  epochs.forEach(([epoch, offset], index) => {
    const from = Math.max(offset, log.start);
    const to = Math.min(epochs[index + 1]?.[1] ?? log.end, log.end);
    if (to > Math.max(from, start)) {
      const left = x(from);
      parts.push(
        s("rect", { class: epochColour(epoch), x: left, y: 8, width: x(to) - left, height: 18 }),
        s("text", { x: left + 4, y: 21 }, `e${epoch}`),
      );
    }
  });
  if (end - start <= MOST_OFFSETS) {
    for (let offset = Math.max(start, log.start) + 1; offset < log.end; offset += 1) {
      parts.push(s("path", { class: "tick", d: `M${x(offset)} 8 v18` }));
    }
  }
  const mark = x(log.high_watermark);
  parts.push(
    s("path", { class: "watermark", d: `M${mark} 2 v30` }),
    s("text", { class: "watermark", x: mark, y: 42 }, `HW ${log.high_watermark}`),
  );
  return parts;
}
