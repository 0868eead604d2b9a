/** The cluster: ZooKeeper with its znodes, the brokers, and the requests between them. */

import { byId, h, keyed, s, setAttribute, setText } from "#dom";
import { DATA, NODE, TYPE, answerText, epochOf, isRoutineFence } from "#catalogue";
import { IN_DOUBT } from "#completeness";
import { count, duration, epochClass, nodeName } from "#words";

const RECENT = 40;
const MOST_COMPARED = 2000;
const BROKER = /^broker-\d+$/;
export const LIFE_SIGNS = { running: "●", paused: "❚❚", stopping: "◐", dead: "✕", unknown: "○" };
export const LIFE_WORDS = {
  running: "running", paused: "paused", stopping: "stopping", dead: "gone", unknown: "no record so far",
};

/**
 * Draws ZooKeeper and the brokers as cards, with an SVG of sessions below them and one of requests above.
 *
 * Args:
 *   history, player: as in `Player`.
 *   onBroker: is called with a broker's id and the button of its card.
 *   completeness: whose records are missing.
 *   evidence: returns what a card shows of the evidence for a stretch (`MissingView`).
 */
export class ClusterView {
  constructor(history, player, onBroker, completeness, evidence) {
    this._history = history;
    this._player = player;
    this._onBroker = onBroker;
    this._completeness = completeness;
    this._evidence = evidence;
    this._stage = byId("stage");
    this._brokers = byId("brokers");
    this._sessions = byId("sessions");
    this._requests = byId("requests");
    this._zookeeper = byId("zookeeper");
    this._drawn = null;
  }

  /**
   * Draw the cards at a moment. A broker whose records are missing has a card even if it has no record so far.
   *
   * Args:
   *   timeout: the session timeout in ms if a session does not name its own.
   *   isInDoubt: whether the records behind the state are missing in part.
   */
  draw(state, us, timeout, isInDoubt) {
    this._drawZooKeeper(state, us);
    const nodes = [...state.nodes].filter(([, node]) => node.broker_id >= 0);
    const missing = new Map(this._completeness.at(us).map((row) => [row.node, row]));
    const unseen = [...missing.keys()].filter((name) => BROKER.test(name) && !state.nodes.has(name));
    const names = [...nodes.map(([name]) => name), ...unseen];
    names.sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
    const cards = keyed(this._brokers, names, (name) => this._card(name));
    for (const [name, node] of nodes) {
      this._drawCard(cards.get(name), name, node, state, us, timeout);
      drawRole(cards.get(name), node, state, missing.has(name) ? IN_DOUBT : "", isInDoubt ? IN_DOUBT : "");
    }
    unseen.forEach((name) => drawUnseen(cards.get(name)));
    for (const [name, card] of cards) {
      this._drawMissing(card, missing.get(name), state.nodes.has(name));
    }
    this._drawn = { state, nodes, cards, us };
  }

  /** Draw the lines between the cards that were drawn last. It measures the page, so other parts are drawn before. */
  drawLines() {
    const { state, nodes, cards, us } = this._drawn;
    this._drawLines(state, nodes, cards, us);
  }

  _drawZooKeeper(state, us) {
    const { zookeeper } = state;
    setAttribute(this._zookeeper, "data-life", zookeeper.life);
    setText(byId("zookeeper-life"), zookeeper.life === "unknown" ? "" : LIFE_WORDS[zookeeper.life]);
    const owner = zookeeper.controller;
    const controller = byId("znode-controller");
    setText(controller.querySelector("output"), owner === null ? "none" : `broker ${owner.broker_id}`);
    setAttribute(controller, "class", `znode ${owner === null ? "absent" : epochClass(owner.epoch)}`);
    setText(byId("znode-epoch").querySelector("output"), String(zookeeper.controller_epoch));
    const ids = [...zookeeper.ids.keys()].sort((a, b) => a - b);
    const chips = keyed(byId("znode-ids"), ids, (id) => h("li.chip", { "data-id": id }));
    for (const [id, chip] of chips) {
      const registration = zookeeper.ids.get(id);
      setText(chip, id);
      setAttribute(chip, "title", `/brokers/ids/${id}: broker epoch ${registration.epoch ?? "not recorded"}`);
    }
    setAttribute(byId("znode-none"), "hidden", ids.length > 0);
  }

  _card(name) {
    const id = Number(name.replace("broker-", ""));
    return h(
      "li.broker",
      { "data-node": name },
      h("h3", {}, h("span.name", {}, nodeName(name)), h("span.crown", {})),
      h("p.life", {}, h("span.sign", { "aria-hidden": "true" }), h("span.word", {})),
      h("p.session", {}, h("span"), h("meter", { min: 0, max: 1, hidden: true, "aria-label": "session time left" })),
      h("p.role", {}),
      h("p.knows", {}),
      h("p.flash", { role: "note" }),
      h("details.missing", { hidden: true }, h("summary"), h("p")),
      h("button.menu", {
        type: "button", "aria-haspopup": "dialog", "aria-label": `commands for ${nodeName(name)}`,
        onclick: (event) => this._onBroker(id, event.currentTarget),
      }, "⋯"),
    );
  }

  _drawCard(card, name, node, state, us, timeout) {
    setAttribute(card, "data-life", node.life);
    setText(card.querySelector(".sign"), LIFE_SIGNS[node.life]);
    const event = node.event === null ? "" : `, ${node.event.event} for ${duration(us - node.event.since_us)}`;
    setText(card.querySelector(".word"), `${LIFE_WORDS[node.life]}${event}`);
    this._drawCrown(card.querySelector(".crown"), name, node, state);
    this._drawSession(card, node, state, us, timeout);
    const flash = this._flash(name, us);
    setText(card.querySelector(".flash"), flash?.text ?? "");
    setAttribute(card.querySelector(".flash"), "data-kind", flash?.kind ?? null);
  }

  /** Say on a card that records are missing; `row` is the stretch that the moment is in, if there is one. */
  _drawMissing(card, row, isOnRecord) {
    setAttribute(card, "data-missing", row !== undefined);
    const details = card.querySelector(".missing");
    setAttribute(details, "hidden", row === undefined);
    const summary = isOnRecord ? "records missing: its last state on record" : "records missing";
    setText(details.firstElementChild, summary);
    if (row === undefined || details.shownRow === row) {
      return;
    }
    details.shownRow = row;
    details.lastElementChild.replaceChildren(...this._evidence(row));
  }

  _drawCrown(crown, name, node, state) {
    const { controller, zookeeper } = state;
    const isNewest = controller !== null && controller.node === name && controller.incarnation === node.incarnation;
    if (isNewest && !controller.has_resigned && node.life !== "dead") {
      const owns = zookeeper.controller?.broker_id === node.broker_id;
      const isReady = controller.is_ready ? "" : ", not ready yet";
      setText(crown, `♛ epoch ${controller.epoch}${owns ? isReady : ", znode gone"}`);
      setAttribute(crown, "class", `crown ${epochClass(controller.epoch)}`);
    } else if (node.term !== null && node.life !== "dead") {
      setText(crown, `♕ epoch ${node.term.epoch}: deposed, unaware of it`);
      setAttribute(crown, "class", "crown zombie");
    } else {
      setText(crown, "");
      setAttribute(crown, "class", "crown");
    }
  }

  _drawSession(card, node, state, us, timeout) {
    const [words, meter] = card.querySelector(".session").children;
    const isRegistered = state.zookeeper.ids.has(String(node.broker_id));
    const whole = node.session?.timeout_ms ?? timeout ?? null;
    const isSilent = node.silent_since_us !== null && isRegistered && whole !== null;
    setAttribute(meter, "hidden", !isSilent);
    if (isSilent) {
      const left = Math.max(0, whole - (us - node.silent_since_us) / 1000);
      setText(words, left > 0 ? `session: about ${duration(left * 1000)} left` : "session: expires any moment");
      setAttribute(meter, "value", (left / whole).toFixed(3));
    } else if (node.session !== null && node.life !== "dead") {
      const believed = node.session.is_connected ? "connected" : "connection lost";
      setText(words, `session: ${isRegistered ? believed : "over in ZooKeeper, not noticed yet"}`);
    } else {
      setText(words, isRegistered ? "session: not recorded" : "session: none, not registered");
    }
  }

  /** What the broker refused or did last, as long as it is recent on the screen; what is routine yields to the rest. */
  _flash(name, us) {
    const within = 900_000 * Math.max(Math.min(this._player.speed, 1), 0.01);
    const { n } = this._player;
    let routine = null;
    for (let index = n - 1; index >= Math.max(0, n - RECENT); index -= 1) {
      const at = this._history.timeAt(index);
      if (us - at > within && index !== n - 1) {
        break;
      }
      const record = this._history.recordAt(index);
      const flash = record[NODE] === name ? flashOf(record) : null;
      if (flash !== null && flash.kind !== "routine") {
        return flash;
      }
      routine ??= flash;
    }
    return routine;
  }

  _drawLines(state, nodes, cards, us) {
    const box = this._stage.getBoundingClientRect();
    const place = (element) => {
      const own = element.getBoundingClientRect();
      const [x, y] = [own.left - box.left, own.top - box.top];
      return { x: x + own.width / 2, right: x + own.width, top: y, bottom: y + own.height, width: own.width };
    };
    const zookeeper = place(this._zookeeper);
    const drawn = new Map();
    for (const [name, node] of nodes) {
      if (state.zookeeper.ids.has(String(node.broker_id))) {
        const card = place(cards.get(name));
        const isOwner = state.zookeeper.controller?.broker_id === node.broker_id;
        const kind = node.silent_since_us !== null ? "session silent" : "session";
        const end = Math.max(24, Math.min(card.x, zookeeper.width - 24));
        drawn.set(`s${name}`, { path: `M${end} ${zookeeper.bottom} L${card.x} ${card.top}`, kind });
        if (isOwner) {
          const path = `M${end + 6} ${zookeeper.bottom} L${card.x + 6} ${card.top}`;
          drawn.set(`c${name}`, { path, kind: `owner ${epochClass(state.zookeeper.controller.epoch)}` });
        }
      }
    }
    drawLines(this._sessions, drawn, box);
    drawLines(this._requests, this._requestsInFlight(state, cards, place, us), box);
  }

  _requestsInFlight(state, cards, place, us) {
    const drawn = new Map();
    let shown = 0;
    for (const [key, request] of state.in_flight) {
      const [from, to] = [cards.get(request.from), cards.get(`broker-${request.to}`)];
      shown += 1;
      if (from === undefined || to === undefined || shown > RECENT) {
        continue;
      }
      const curve = curved(place(from), place(to));
      const age = Math.max(0, us - request.us) / 1000;
      const part = request.is_received ? 1 : Math.min(0.9, age / (age + 3 * this._player.speed));
      const label = `${request.api} ${request.partitions || ""}`;
      drawn.set(`l${key}`, { path: curve.path, kind: `request ${epochClass(request.epoch)}` });
      const point = curve.at(part);
      drawn.set(`r${key}`, { ...point, kind: `mark ${epochClass(request.epoch)}`, label, epoch: request.epoch });
    }
    return drawn;
  }
}

/** Draw the card of a broker without a record so far. */
function drawUnseen(card) {
  setAttribute(card, "data-life", "unknown");
  setText(card.querySelector(".sign"), LIFE_SIGNS.unknown);
  setText(card.querySelector(".word"), LIFE_WORDS.unknown);
  setAttribute(card.querySelector("meter"), "hidden", true);
  for (const part of [".crown", ".session span", ".role", ".knows", ".flash"]) {
    setText(card.querySelector(part), "");
  }
}

/** What a broker leads and follows, and what it believes; `own` and `all` mark its own numbers, and the cluster's. */
function drawRole(card, node, state, own, all) {
  setText(card.querySelector(".role"), role(node, own));
  const knows = card.querySelector(".knows");
  setText(knows, beliefs(node, state, own || all));
  setAttribute(knows, "class", `knows ${epochClass(node.metadata_epoch ?? 0)}`);
}

/** What a broker leads and follows, in words. */
function role(node, mark) {
  let leads = 0;
  for (const [, partitions] of node.believes) {
    for (const state of partitions.values()) {
      leads += state[2] === node.broker_id ? 1 : 0;
    }
  }
  return `leads ${leads}${mark}, follows ${node.believes.partitionCount - leads}${mark}`;
}

/** What a broker believes by its metadata cache, and how far that is behind ZooKeeper. */
function beliefs(node, state, mark) {
  if (node.metadata_controller < 0) {
    return "knows no controller";
  }
  const behind = partitionsBehind(node, state);
  const lag = behind > 0 ? `; ${count(behind, "partition")} out of date${mark}` : "";
  return `knows: controller ${node.metadata_controller}, epoch ${node.metadata_epoch}${lag}`;
}

function partitionsBehind(node, state) {
  if (state.partitions.partitionCount > MOST_COMPARED) {
    return 0;
  }
  let behind = 0;
  for (const [topic, partitions] of state.partitions) {
    for (const [partition, written] of partitions) {
      const own = node.metadata.at(topic, partition);
      behind += own === undefined || own[3] < written[3] || own[5] < written[5] ? 1 : 0;
    }
  }
  return behind;
}

function flashOf(record) {
  const data = record[DATA];
  switch (record[TYPE]) {
    case "FenceHit":
      if (isRoutineFence(data)) {
        return { kind: "routine", text: `↻ ${data.what}: leader epoch ${data.known} now, no longer ${data.offered}` };
      }
      return data.switched_off
        ? { kind: "off", text: `⚠ lets pass: ${data.what} (${data.fence} is off)` }
        : { kind: "refused", text: `⊘ refuses ${data.what}: offered ${data.offered}, known ${data.known}` };
    case "ControllerElected":
      return { kind: "won", text: `♛ wins the election, epoch ${data.epoch}` };
    case "ControllerResigned":
      return { kind: "refused", text: `resigns from epoch ${data.epoch}` };
    case "SessionExpired":
      return { kind: "refused", text: "learns that its session has expired" };
    case "WatchFired":
      return { kind: "watch", text: `◉ ${data.path} ${data.kind}` };
    case "AnswerInjected":
      return { kind: "refused", text: answerText(data) };
    case "PointReached":
      return { kind: "refused", text: `${data.action} at ${data.point}` };
    case "LeaderAndIsrApplied":
    case "MetadataUpdated":
      return { kind: "applied", text: `applies ${record[TYPE] === "MetadataUpdated" ? "metadata" : "leaders"} `
        + `of epoch ${epochOf(record)}` };
    default:
      return null;
  }
}

/** A curve between the lower edges of two cards, or between their right edges where one is below the other. */
function curved(from, to) {
  const isColumn = Math.abs(to.x - from.x) < 1 && from.top !== to.top;
  const [start, end] = isColumn
    ? [{ x: from.right - 24, y: (from.top + from.bottom) / 2 }, { x: to.right - 24, y: (to.top + to.bottom) / 2 }]
    : [{ x: from.x, y: from.bottom }, { x: to.x, y: to.bottom }];
  const depth = Math.max(start.y, end.y) + 22 + Math.abs(end.x - start.x) * 0.06;
  const bend = isColumn ? { x: from.right + 8, y: (start.y + end.y) / 2 } : { x: (start.x + end.x) / 2, y: depth };
  const at = (part) => {
    const rest = 1 - part;
    const along = (axis) => rest * rest * start[axis] + 2 * rest * part * bend[axis] + part * part * end[axis];
    return { x: along("x"), y: along("y") };
  };
  return { path: `M${start.x} ${start.y} Q${bend.x} ${bend.y} ${end.x} ${end.y}`, at };
}

function drawLines(svg, drawn, box) {
  setAttribute(svg, "viewBox", `0 0 ${box.width} ${box.height}`);
  const elements = keyed(svg, [...drawn.keys()], (key) => lineOrMark(key));
  for (const [key, line] of drawn) {
    drawLine(elements.get(key), line);
  }
}

function lineOrMark(key) {
  if (!key.startsWith("r")) {
    return s("path");
  }
  return s("g", {}, s("circle", { r: 6 }), s("text.epoch", { dy: "0.35em" }), s("text.api", { dy: 20 }));
}

function drawLine(element, line) {
  setAttribute(element, "class", line.kind);
  if (line.path !== undefined) {
    setAttribute(element, "d", line.path);
    return;
  }
  setAttribute(element, "transform", `translate(${line.x.toFixed(1)} ${line.y.toFixed(1)})`);
  setText(element.children[1], String(Math.max(line.epoch, 0)));
  setText(element.children[2], line.label);
}
