/** The inside of a controller: its event queue, its state machines, and its channels to the brokers. */

import { byId, h, keyed, s, setAttribute, setText } from "#dom";
import { DATA, INCARNATION, NODE, TYPE } from "#catalogue";
import { entries } from "#fold";
import { count, epochClass, nodeName, uncertain } from "#words";

const MOST_EVENTS = 12;
const MOST_REQUESTS = 4;
const RECENT = 60;

/** The states of Kafka's partition state machine, with their places in the diagram and the moves between them. */
const PARTITION_MACHINE = {
  states: {
    NonExistentPartition: [70, 22], NewPartition: [70, 92], OnlinePartition: [225, 92], OfflinePartition: [225, 22],
  },
  moves: [
    ["NonExistentPartition", "NewPartition"], ["NewPartition", "OnlinePartition"],
    ["OnlinePartition", "OfflinePartition"], ["OfflinePartition", "OnlinePartition"],
    ["OfflinePartition", "NonExistentPartition"], ["NewPartition", "OfflinePartition"],
  ],
};
const REPLICA_MACHINE = {
  states: {
    NonExistentReplica: [70, 22], NewReplica: [70, 72], OnlineReplica: [70, 122], OfflineReplica: [225, 122],
    ReplicaDeletionStarted: [225, 72], ReplicaDeletionSuccessful: [225, 22], ReplicaDeletionIneligible: [225, 172],
  },
  moves: [
    ["NonExistentReplica", "NewReplica"], ["NewReplica", "OnlineReplica"], ["OnlineReplica", "OfflineReplica"],
    ["OfflineReplica", "OnlineReplica"], ["OfflineReplica", "ReplicaDeletionStarted"],
    ["ReplicaDeletionStarted", "ReplicaDeletionSuccessful"], ["ReplicaDeletionSuccessful", "NonExistentReplica"],
    ["ReplicaDeletionStarted", "ReplicaDeletionIneligible"], ["ReplicaDeletionIneligible", "OnlineReplica"],
    ["OfflineReplica", "ReplicaDeletionIneligible"],
  ],
};
const WIDTH = 300;
const BOX = { width: 130, height: 34 };

/** Draws one node's inside; by default that of the newest controller, or the node that is chosen. */
export class InsideView {
  constructor(history, player, completeness) {
    this._history = history;
    this._player = player;
    this._completeness = completeness;
    this._chosen = null;
    this._tabs = byId("inside-nodes");
    this._partitions = machine(byId("partition-machine"), PARTITION_MACHINE, 118);
    this._replicas = machine(byId("replica-machine"), REPLICA_MACHINE, 198);
  }

  /** Draw the state at a moment. */
  draw(state, us) {
    const names = candidates(state);
    const shown = names.includes(this._chosen) ? this._chosen : state.controller?.node ?? names[0] ?? null;
    this._drawTabs(names, shown, state);
    setAttribute(byId("inside-none"), "hidden", shown !== null);
    setAttribute(byId("inside-of"), "hidden", shown === null);
    const isLast = this._completeness.ofAt(shown, us) !== undefined;
    setText(byId("inside-missing"), isLast ? "Records of this broker are missing: its last state is shown." : "");
    if (shown === null) {
      return;
    }
    const node = state.nodes.get(shown);
    const age = this._age(shown, node, us);
    drawQueue(node, age);
    const moved = this._recentMoves(shown, us);
    drawMachine(this._partitions, partitionCounts(node), moved.PartitionsMoved);
    drawMachine(this._replicas, replicaCounts(node), moved.ReplicasMoved);
    drawChannels(node, state, age);
  }

  /** Returns the function that writes how long ago a time of a node was. The moment may be of another clock. */
  _age(name, node, us) {
    const current = this._history.recordAt(this._player.n - 1);
    const within = current === undefined ? 0 : this._completeness.within(
      [name, node.incarnation], [current[NODE], current[INCARNATION]], us,
    );
    return (since) => uncertain(us - since, within);
  }

  _drawTabs(names, shown, state) {
    const tabs = keyed(this._tabs, names, (name) => h("button", {
      type: "button", onclick: () => { this._chosen = name; this._player.version += 1; },
    }));
    for (const [name, tab] of tabs) {
      const isNewest = state.controller?.node === name;
      setText(tab, `${nodeName(name)}${isNewest ? ` · epoch ${state.controller.epoch}` : ""}`);
      setAttribute(tab, "aria-pressed", String(name === shown));
      setAttribute(tab, "class", isNewest ? epochClass(state.controller.epoch) : null);
    }
  }

  /** The moves "source>target" of each machine that are recent on the screen. */
  _recentMoves(name, us) {
    const found = { PartitionsMoved: new Set(), ReplicasMoved: new Set() };
    const within = 900_000 * Math.max(Math.min(this._player.speed, 1), 0.01);
    const { n } = this._player;
    for (let index = n - 1; index >= Math.max(0, n - RECENT); index -= 1) {
      if (us - this._history.timeAt(index) > within && index !== n - 1) {
        break;
      }
      const record = this._history.recordAt(index);
      if (record[NODE] === name && record[TYPE] in found) {
        const { target, partitions, replicas } = record[DATA];
        for (const [, , , source] of (partitions ?? replicas).slice(0, 50)) {
          found[record[TYPE]].add(`${source}>${target}`);
        }
      }
    }
    return found;
  }
}

/** The nodes with a controller's inside: those that queue events, have channels or state machines. */
function candidates(state) {
  const names = [];
  for (const [name, node] of state.nodes) {
    if (name === state.controller?.node || node.term !== null || node.event !== null || node.queue.length > 0) {
      names.push(name);
    }
  }
  return names.sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
}

function drawQueue(node, age) {
  const current = byId("queue-current");
  setText(current, node.event === null ? "idle" : `${node.event.event}, for ${age(node.event.since_us)}`);
  setAttribute(current, "data-busy", node.event !== null);
  const waiting = [...node.queue].map((event) => [String(event.id), event]);
  const shown = waiting.slice(0, MOST_EVENTS);
  const items = keyed(byId("queue-waiting"), shown.map(([id]) => id), () => h("li"));
  for (const [id, event] of shown) {
    setText(items.get(id), `${event.event} · waits ${age(event.since_us)}`);
  }
  const more = waiting.length - MOST_EVENTS;
  const rest = waiting.length === 0 ? "nothing waits" : "";
  setText(byId("queue-more"), more > 0 ? `and ${count(more, "more event")}` : rest);
}

function partitionCounts(node) {
  const counts = new Map();
  for (const [, partitions] of node.partition_states) {
    for (const state of partitions.values()) {
      counts.set(state, (counts.get(state) ?? 0) + 1);
    }
  }
  return counts;
}

function replicaCounts(node) {
  const counts = new Map();
  for (const [, partitions] of node.replica_states) {
    for (const replicas of partitions.values()) {
      for (const [, state] of entries(replicas)) {
        counts.set(state, (counts.get(state) ?? 0) + 1);
      }
    }
  }
  return counts;
}

function machine(svg, { states, moves }, height) {
  setAttribute(svg, "viewBox", `0 0 ${WIDTH} ${height}`);
  const arrows = new Map();
  for (const [source, target] of moves) {
    const path = s("path", { class: "move", d: arrow(states[source], states[target]), "marker-end": "url(#tip)" });
    arrows.set(`${source}>${target}`, path);
    svg.append(path);
  }
  const boxes = new Map();
  for (const [state, [x, y]] of Object.entries(states)) {
    const name = state.replace(/Partition$|Replica$/, "").replace(/^Replica/, "");
    const box = s(
      "g",
      { class: "state", transform: `translate(${x} ${y})` },
      s("rect", { x: -BOX.width / 2, y: -BOX.height / 2, width: BOX.width, height: BOX.height, rx: 8 }),
      s("text", { y: -3 }, name.replace(/([a-z])([A-Z])/g, "$1 $2")),
      s("text", { class: "count", y: 12 }),
    );
    boxes.set(state, box);
    svg.append(box);
  }
  return { arrows, boxes };
}

function arrow([x1, y1], [x2, y2]) {
  const side = Math.abs(x2 - x1) > 1 ? Math.sign(x2 - x1) : 0;
  const down = side === 0 ? Math.sign(y2 - y1) : 0;
  const offset = side === 0 ? { x: down * 12, y: 0 } : { x: 0, y: side * 6 };
  const from = [x1 + side * BOX.width / 2 + offset.x, y1 + down * BOX.height / 2 + offset.y];
  const to = [x2 - side * (BOX.width / 2 + 5) + offset.x, y2 - down * (BOX.height / 2 + 5) + offset.y];
  return `M${from.join(" ")} L${to.join(" ")}`;
}

function drawMachine({ arrows, boxes }, counts, moved) {
  for (const [move, arrowOfMove] of arrows) {
    setAttribute(arrowOfMove, "class", moved.has(move) ? "move lit" : "move");
  }
  for (const [state, box] of boxes) {
    const number = counts.get(state) ?? 0;
    const isTarget = [...moved].some((move) => move.endsWith(`>${state}`));
    setAttribute(box, "class", `state${number > 0 ? " held" : ""}${isTarget ? " lit" : ""}`);
    setText(box.lastElementChild, number > 0 ? number.toLocaleString("en") : "–");
  }
}

function drawChannels(node, state, age) {
  const channels = [...node.channels].sort(([a], [b]) => a - b);
  const items = keyed(byId("channels"), channels.map(([to]) => to), newChannel);
  for (const [to, channel] of channels) {
    const [name, status, waiting, more] = items.get(to).children;
    const request = channel.in_flight === null ? undefined : state.in_flight.get(channel.in_flight);
    setText(name, `→ broker ${to}`);
    setText(status, ` ${channelStatus(channel, request, age)}`);
    setAttribute(items.get(to), "data-busy", request !== undefined || channel.unanswered !== null);
    drawWaiting(channel, waiting, more, age);
  }
  setAttribute(byId("channels-none"), "hidden", channels.length > 0);
}

function newChannel(to) {
  return h("li", { "data-to": to }, h("b"), h("span"), h("ol", { "aria-label": "waiting requests" }), h("p.faint"));
}

/** What a channel does, in words: its request, and how many wait. */
function channelStatus({ unanswered, waiting }, request, age) {
  const wait = waiting > 0 ? `; ${count(waiting, "request")} wait${waiting === 1 ? "s" : ""}` : "";
  if (request !== undefined) {
    const attempt = request.attempt > 1 ? `, attempt ${request.attempt}` : "";
    return `${requestName(request)} sent ${age(request.us)} ago${attempt}${wait}`;
  }
  if (unanswered !== null) {
    const sent = `last sent ${age(unanswered.since_us)} ago`;
    return `${requestName(unanswered)} failed, to be sent again, ${sent}${wait}`;
  }
  return `${waiting > 0 ? "nothing sent" : "idle"}${wait}`;
}

/** The names of the first requests that wait. */
function drawWaiting({ waiting, first }, list, more, age) {
  const shown = first.slice(0, MOST_REQUESTS).map((request) => [String(request.id), request]);
  const items = keyed(list, shown.map(([id]) => id), () => h("li"));
  for (const [id, request] of shown) {
    setText(items.get(id), `${requestName(request)} · waits ${age(request.since_us)}`);
  }
  const others = waiting - shown.length;
  setText(more, others > 0 && shown.length > 0 ? `and ${others.toLocaleString("en")} more` : "");
  setAttribute(list, "hidden", shown.length === 0);
  setAttribute(more, "hidden", more.textContent === "");
}

function requestName({ api, partitions }) {
  return partitions > 0 ? `${api} (${count(partitions, "partition")})` : api;
}
