/** What goes between the parts of the cluster: sessions, cut links, and requests from column to column. */

import { byId, keyed, s, setAttribute, setText, typeScale } from "#dom";
import { count, epochClass, nodeName, relative } from "#words";

const MOST_REQUESTS = 40;
/** The height of a lane in the row of requests, and what it is squeezed to if there are many. */
const LANE = 24;
const LEAST_LANE = 7;
/** What the label of the first lane takes above it. */
const LABEL = 5;
const ARROW = " -> ";
const ZOOKEEPER = "zookeeper";
const SERVER = /^zookeeper-(\d+)$/;
const ALL = "all";

/** Draws lines over the columns of `ClusterView`; `player` has the speed. */
export class WiresView {
  constructor(player) {
    this._player = player;
    this._stage = byId("stage");
    this._sessions = byId("sessions");
    this._requests = byId("requests");
    this._zookeeper = byId("zookeeper");
  }

  /** Draw them at a moment; `columns` are the elements of the brokers, by node. */
  draw(state, nodes, columns, us) {
    const stage = this._stage.getBoundingClientRect();
    const scale = typeScale();
    const box = { width: stage.width / scale, height: stage.height / scale };
    const place = (element) => {
      const own = element.getBoundingClientRect();
      const [x, y] = [(own.left - stage.left) / scale, (own.top - stage.top) / scale];
      const [width, height] = [own.width / scale, own.height / scale];
      return { x: x + width / 2, left: x, width, top: y, bottom: y + height };
    };
    const places = new Map();
    for (const [name] of nodes) {
      const column = columns.get(name);
      places.set(name, { column: place(column), wire: place(column.querySelector(".wire")) });
    }
    drawAll(this._sessions, sessions(state, nodes, places, place(this._zookeeper)), box);
    drawAll(this._requests, between(state, places, us, this._player.speed), box);
  }
}

/** The lines from ZooKeeper to the brokers with a registration, and the cuts on the way. */
function sessions(state, nodes, places, zookeeper) {
  const drawn = new Map();
  for (const [name, node] of nodes) {
    const { column } = places.get(name);
    const end = Math.max(24, Math.min(column.x, zookeeper.width - 24));
    const path = (dx) => `M${end + dx} ${zookeeper.bottom} L${column.x + dx} ${column.top}`;
    if (state.zookeeper.ids.has(String(node.broker_id))) {
      drawn.set(`s${name}`, { path: path(0), kind: node.silent_since_us !== null ? "session silent" : "session" });
      if (state.zookeeper.controller?.broker_id === node.broker_id) {
        const kind = `owner ${epochClass(state.zookeeper.controller.epoch)}`;
        drawn.set(`c${name}`, { path: path(6), kind });
      }
    }
    const found = faultOfSession(state, name);
    if (found !== null) {
      const { target, what, fault, label } = found;
      drawn.set(`x${name}${target}`, {
        part: `link:${name}:${target}`, kind: "link cut", title: `${nodeName(name)}: ${what}: ${fault}`,
        path: path(0), at: [(end + column.x) / 2, (zookeeper.bottom + column.top) / 2], label, sign: "✕",
      });
    }
  }
  return drawn;
}

/** The fault of a broker's links to ZooKeeper, to some of its servers, or of all its links; null if there is none. */
function faultOfSession(state, name) {
  const { links } = state;
  const faultTo = (target) => links.get(`${name}${ARROW}${target}`) ?? links.get(`${target}${ARROW}${name}`);
  for (const [target, what] of [[ZOOKEEPER, "its connection to ZooKeeper"], [ALL, "all its connections"]]) {
    const fault = faultTo(target);
    if (fault !== undefined) return { target, what, fault, label: target === ALL ? "all links" : fault };
  }
  const servers = [...links.keys()].map((link) => link.split(ARROW))
    .filter(([from, to]) => from === name && serverNumber(to) !== null).map(([, to]) => to);
  if (servers.length === 0) return null;
  const numbers = servers.map(serverNumber).join(", ");
  const [target] = servers;
  const fault = faultTo(target);
  return { target, what: `ZooKeeper's servers ${numbers}`, fault, label: numbers };
}

/** The number of a server of an ensemble, from its name; null if it is the name of something else. */
export function serverNumber(name) {
  return SERVER.exec(name)?.[1] ?? null;
}

/** The lanes of the row of requests: what has the same sender, API and epoch shares one, as has each cut link. */
class Lanes {
  constructor(places) {
    this._places = places;
    this._keys = new Map();
  }

  /** Take the lane of a key between two nodes; the place of its line is known when all are taken. */
  take(key, from, to) {
    const [one, other] = [this._places.get(from).wire.x, this._places.get(to).wire.x];
    const lane = this._keys.get(key) ?? { number: this._keys.size, from: Infinity, to: -Infinity };
    lane.from = Math.min(lane.from, one, other);
    lane.to = Math.max(lane.to, one, other);
    this._keys.set(key, lane);
    return lane;
  }

  /** Give each lane its height, so that those that do not overlap share one. */
  settle(top, height) {
    const ends = [];
    for (const lane of [...this._keys.values()].sort((a, b) => a.from - b.from)) {
      const free = ends.findIndex((end) => end < lane.from - 4);
      lane.row = free < 0 ? ends.length : free;
      ends[lane.row] = lane.to;
    }
    const step = Math.max(Math.min(LANE, (height - LABEL) / Math.max(ends.length, 1)), LEAST_LANE);
    for (const lane of this._keys.values()) {
      lane.y = top + LABEL + (lane.row + 0.5) * step;
      lane.isRoomy = step > 14;
    }
  }
}

/** The cut links between brokers, and the requests that have no answer yet. */
function between(state, places, us, speed) {
  const lanes = new Lanes(places);
  const found = [];
  for (const [link, fault] of state.links) {
    const [from, to] = link.split(ARROW);
    if (places.has(from) && places.has(to)) {
      found.push({ from, to, fault, lane: lanes.take(`l${[from, to].sort()} ${fault}`, from, to) });
    }
  }
  const labelled = new Set();
  for (const [key, request] of [...state.in_flight].slice(0, MOST_REQUESTS)) {
    const { from, to: id, api, epoch, answer } = request;
    const to = `broker-${id}`;
    if (places.has(from) && places.has(to)) {
      const name = `r${from} ${api} ${epoch}`;
      const label = `${name} ${answer}`; // of equal ones in a lane, which would lie over each other, the first
      found.push({ key, from, to, request, isFirst: !labelled.has(label), lane: lanes.take(name, from, to) });
      labelled.add(label);
    }
  }
  const wires = [...places.values()].map(({ wire }) => wire);
  lanes.settle(Math.min(...wires.map(({ top }) => top)), Math.min(...wires.map(({ bottom, top }) => bottom - top)));
  return new Map(found.map((each) => (each.request === undefined
    ? [`l${each.from} ${each.to}`, linkOf(each, places)]
    : [`r${each.key}`, requestOf(each, places, us, speed)])));
}

function linkOf({ from, to, fault, lane }, places) {
  const [start, end] = [places.get(from).wire.x, places.get(to).wire.x];
  return {
    part: `link:${from}:${to}`, kind: "link cut",
    title: `connection from ${nodeName(from)} to ${nodeName(to)}: ${fault}`,
    // The middle may be a gap between columns, which lines of other views run along.
    path: `M${start} ${lane.y} L${end} ${lane.y}`, at: [start + (end - start) / 3, lane.y],
    label: lane.isRoomy ? fault : "",
    sign: "✕",
  };
}

function requestOf({ from, to, request, isFirst, lane }, places, us, speed) {
  const { api, epoch, partitions, attempt, answer } = request;
  const [start, end] = [places.get(from).wire.x, places.get(to).wire.x];
  const age = Math.max(0, us - request.us) / 1000;
  const part = answer !== null ? 0.5 : request.is_received ? 1 : Math.min(0.9, age / (age + 3 * speed));
  const often = attempt > 1 ? `, attempt ${attempt}` : "";
  const size = partitions > 0 ? ` (${partitions})` : "";
  const answered = answer === null ? "" : `, answered with ${answer}`;
  return {
    part: `request:${from}:${to}`, kind: `request ${epochClass(epoch)}`,
    title: `${api} from ${nodeName(from)} to ${nodeName(to)}, controller epoch ${epoch}, `
      + `${count(partitions, "partition")}${often}, sent ${relative(us - request.us, "ago")}${answered}`,
    path: `M${start} ${lane.y} L${end} ${lane.y}`, at: [start + (end - start) * part, lane.y],
    label: !isFirst ? "" : answer !== null ? `${answer === "NONE" ? "answer" : answer} ↩`
      : lane.isRoomy ? `${api}${size}` : "",
    labelAt: answer === null ? start + (end > start ? 1 : -1) * Math.min(60, Math.abs(end - start) / 2) : null,
    sign: String(Math.max(epoch, 0)),
  };
}

function drawAll(svg, drawn, box) {
  setAttribute(svg, "viewBox", `0 0 ${box.width} ${box.height}`);
  const elements = keyed(svg, [...drawn.keys()], (key) => create(drawn.get(key)));
  for (const [key, line] of drawn) {
    draw(elements.get(key), line);
  }
}

function create(line) {
  if (line.sign === undefined) {
    return s("path");
  }
  return s("g", { role: "img" }, s("title"), s("path"), s("text.api"), s("g.mark", {}, s("circle", { r: 9 }),
    s("text.sign", { dy: "0.36em" })));
}

function draw(element, line) {
  setAttribute(element, "class", line.kind);
  if (line.sign === undefined) {
    setAttribute(element, "d", line.path);
    return;
  }
  const [title, path, label, mark] = element.children;
  const [x, y] = line.at;
  setAttribute(element, "data-part", line.part);
  setAttribute(element, "aria-label", line.title);
  setText(title, line.title);
  setAttribute(path, "d", line.path);
  setText(label, line.label);
  const isBeside = line.labelAt === null || line.labelAt === undefined;
  setAttribute(label, "class", isBeside ? "api beside" : "api");
  setAttribute(label, "x", (isBeside ? x + 13 : line.labelAt).toFixed(1));
  setAttribute(label, "y", (isBeside ? y - 2 : y - 4).toFixed(1));
  setAttribute(mark, "transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
  setText(mark.lastElementChild, line.sign);
}
