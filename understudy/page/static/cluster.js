/** The cluster: ZooKeeper with its znodes, and a column for each broker with what it is, believes and refuses. */

import { byId, explain, h, keyed, setAttribute, setPhrase, setText, wholePhrase } from "#dom";
import { DATA, NODE, TYPE, answerText, epochOf, isRoutineFence } from "#catalogue";
import { IN_DOUBT } from "#completeness";
import { WiresView, serverNumber } from "#wires";
import { count, duration, epochClass, nodeName } from "#words";

const RECENT = 40;
const MOST_COMPARED = 2000;
const BROKER = /^broker-\d+$/;
/** Up to this number of brokers the tab key reaches each part of a column; of more, only their logs. */
const MOST_REACHABLE = 6;
const MOST_EVENTS = 2;
/** What a broker does all the time: it is shown at its own moment, and while the run is played. */
const ONLY_IN_MOTION = new Set(["applied", "watch"]);
export const LIFE_SIGNS = { running: "●", paused: "❚❚", stopping: "◐", dead: "✕", unknown: "○" };
export const LIFE_WORDS = {
  running: "running", paused: "paused", stopping: "stopping", dead: "gone", unknown: "no record so far",
};

/**
 * Draws ZooKeeper, and the brokers as columns whose rows are aligned: session, process, metadata, queue, requests. The
 * cells of replicas and groups belong to other views, which find them by `columns`.
 *
 * Args:
 *   history, player: as in `Player`.
 *   onBroker: is called with a broker's id and the button of its column.
 *   completeness: whose records are missing.
 *   evidence: returns what a column shows of the evidence for a stretch (`MissingView`).
 */
export class ClusterView {
  constructor(history, player, onBroker, completeness, evidence) {
    this._history = history;
    this._player = player;
    this._onBroker = onBroker;
    this._completeness = completeness;
    this._evidence = evidence;
    this._brokers = byId("brokers");
    this._zookeeper = byId("zookeeper");
    this._wires = new WiresView(player);
    this._drawn = { columns: new Map() };
    const stage = byId("stage");
    stage.addEventListener("focusin", ({ target }) => explainFocus(stage, target.closest("[tabindex][aria-label]")));
    stage.addEventListener("focusout", () => explainFocus(stage, null));
  }

  /** The columns that were drawn last, by node. */
  get columns() {
    return this._drawn.columns;
  }

  /** Whether the columns are few enough for the tab key to reach each of their parts. */
  get isReachable() {
    return this._drawn.columns.size <= MOST_REACHABLE;
  }

  /**
   * Draw the columns at a moment. A broker whose records are missing has one even if it has no record so far.
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
    const columns = keyed(this._brokers, names, (name) => this._column(name));
    this._drawn = { state, nodes, columns, us };
    for (const [name, node] of nodes) {
      const column = columns.get(name);
      this._drawColumn(column, name, node, state, us, timeout);
      const marks = { own: missing.has(name) ? IN_DOUBT : "", all: isInDoubt ? IN_DOUBT : "" };
      drawRole(column, name, node, state, marks, this.isReachable);
      drawQueue(column.querySelector(".queue"), name, node, us, this.isReachable);
    }
    unseen.forEach((name) => drawUnseen(columns.get(name), name));
    for (const [name, column] of columns) {
      this._drawMissing(column, missing.get(name), state.nodes.has(name));
    }
  }

  /** Name the quorum of a KRaft cluster in place of ZooKeeper. The page hides what has no counterpart there. */
  nameQuorum() {
    setAttribute(document.body, "data-metadata", "quorum");
    this._zookeeper.querySelector("h3").firstChild.data = "KRaft quorum ";
    const names = ["controller", "epoch", "brokers that are not fenced"];
    this._zookeeper.querySelectorAll(".znode[data-part] > code").forEach((code, place) => setText(code, names[place]));
  }

  /** Draw the lines between the columns that were drawn last. It measures the page, so other parts are drawn before. */
  drawLines() {
    const { state, nodes, columns, us } = this._drawn;
    this._wires.draw(state, nodes, columns, us);
  }

  _drawZooKeeper(state, us) {
    const { zookeeper } = state;
    setAttribute(this._zookeeper, "data-life", zookeeper.life);
    setText(byId("zookeeper-life"), zookeeper.life === "unknown" ? "" : LIFE_WORDS[zookeeper.life]);
    const owner = zookeeper.controller;
    const controller = byId("znode-controller");
    setText(controller.querySelector("output"), owner === null ? "none" : nodeName(owner.node));
    setAttribute(controller, "class", `znode ${owner === null ? "absent" : epochClass(owner.epoch)}`);
    setText(byId("znode-epoch").querySelector("output"), String(zookeeper.controller_epoch));
    const ids = [...zookeeper.ids.keys()].sort((a, b) => a - b);
    const chips = keyed(byId("znode-ids"), ids, (id) => h("li.chip", { "data-id": id }));
    for (const [id, chip] of chips) {
      const registration = zookeeper.ids.get(id);
      setText(chip, id);
      setAttribute(chip, "title", `broker ${id}: broker epoch ${registration.epoch ?? "not recorded"}`);
    }
    setAttribute(byId("znode-none"), "hidden", ids.length > 0);
    drawServerLinks(state);
  }

  _column(name) {
    const id = Number(name.replace("broker-", ""));
    return h(
      "li.broker",
      { "data-node": name },
      h("div.head", {}, h("h3", {}, h("span.name"), " ", h("span.crown", {})), h("button.menu", {
        type: "button", "aria-haspopup": "dialog", "aria-label": `commands for ${nodeName(name)}`,
        onclick: (event) => this._onBroker(id, event.currentTarget),
      }, "⋯")),
      h("div.session", { "data-part": `session:${name}` },
        h("span"), h("meter", { min: 0, max: 1, hidden: true, "aria-label": "session time left" })),
      h("div.process", { "data-part": `process:${name}` },
        h("p.life", {}, h("span.sign", { "aria-hidden": "true" }), h("span.word", {})), h("p.role", {})),
      h("div.metadata", { "data-part": `metadata:${name}` }, h("p.believed", {}), h("p.behind", {})),
      h("div.queue", {}, h("p.event"), h("p.waiting"), h("p.awaited")),
      h("div.wire", {}, h("p.flash", { role: "note" })),
      h("div.replica", {}, h("p.place"), h("div.plot")),
      h("div.groups"),
      h("div.gap", {}, h("details.missing", { hidden: true }, h("summary"), h("p"))),
    );
  }

  _drawColumn(column, name, node, state, us, timeout) {
    setAttribute(column, "data-life", node.life);
    setPhrase(column.querySelector(".name"), phraseOfName(name));
    setText(column.querySelector(".sign"), LIFE_SIGNS[node.life]);
    setText(column.querySelector(".word"), LIFE_WORDS[node.life]);
    drawCrown(column.querySelector(".crown"), name, node, state);
    drawSession(column.querySelector(".session"), name, sessionOf(node, state, us, timeout), this.isReachable);
    const flash = this._flash(name, us);
    const element = column.querySelector(".flash");
    setPhrase(element, flash?.text ?? "");
    setAttribute(element, "data-kind", flash?.kind ?? null);
    setAttribute(element, "data-part", flash?.isFence ? `fence:${name}` : null);
    setAttribute(element, "title", flash === null ? null : `${nodeName(name)}: ${wholePhrase(flash.text)}`);
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

  /** What the broker refused or did last, as long as it is recent on the screen; what is routine yields to the rest. */
  _flash(name, us) {
    const within = 900_000 * Math.max(Math.min(this._player.speed, 1), 0.01);
    const { n, isPlaying, isLive, isAtEdge } = this._player;
    const isMoving = isPlaying || isLive && isAtEdge;
    let routine = null;
    for (let index = n - 1; index >= Math.max(0, n - RECENT); index -= 1) {
      const at = this._history.timeAt(index);
      if (us - at > within && index !== n - 1) {
        break;
      }
      const record = this._history.recordAt(index);
      const found = record[NODE] === name ? flashOf(record) : null;
      const flash = isMoving || index === n - 1 || !ONLY_IN_MOTION.has(found?.kind) ? found : null;
      if (flash !== null && flash.kind !== "routine") {
        return flash;
      }
      routine ??= flash;
    }
    return routine;
  }
}

/** Show the text of the part that has the focus below it, as its title is shown on hover. */
function explainFocus(stage, part) {
  const tip = byId("explained");
  setAttribute(tip, "hidden", part === null || !part.matches(":focus-visible"));
  if (tip.hidden) {
    return;
  }
  setText(tip, part.getAttribute("aria-label"));
  const [box, own] = [stage.getBoundingClientRect(), part.getBoundingClientRect()];
  const left = Math.max(0, Math.min(own.left - box.left, box.width - tip.offsetWidth));
  tip.style.left = `${left}px`;
  tip.style.top = `${own.bottom - box.top + 4}px`;
}

/** A broker's name, short in narrow columns. */
function phraseOfName(name) {
  return name.replace(/^broker-/, "«broker »");
}

/** Draw the column of a broker without a record so far. */
function drawUnseen(column, name) {
  setAttribute(column, "data-life", "unknown");
  setPhrase(column.querySelector(".name"), phraseOfName(name));
  setText(column.querySelector(".sign"), LIFE_SIGNS.unknown);
  setText(column.querySelector(".word"), LIFE_WORDS.unknown);
  setAttribute(column.querySelector("meter"), "hidden", true);
  const parts = column.querySelectorAll(
    ".crown, .session span, .role, .believed, .behind, .event, .waiting, .awaited, .flash",
  );
  parts.forEach((part) => setPhrase(part, ""));
}

function drawCrown(crown, name, node, state) {
  const { controller, zookeeper } = state;
  const isNewest = controller !== null && controller.node === name && controller.incarnation === node.incarnation;
  if (isNewest && !controller.has_resigned && node.life !== "dead") {
    const owns = zookeeper.controller?.broker_id === node.broker_id;
    const isReady = controller.is_ready ? "" : "«, not ready yet»";
    setPhrase(crown, `♛ epoch\u00a0${controller.epoch}${owns ? isReady : "«, znode gone»"}`);
    setAttribute(crown, "class", `crown ${epochClass(controller.epoch)}`);
  } else if (node.term !== null && node.life !== "dead") {
    setPhrase(crown, `♕ epoch\u00a0${node.term.epoch}: deposed`);
    setAttribute(crown, "class", "crown zombie");
  } else {
    setPhrase(crown, "");
    setAttribute(crown, "class", "crown");
  }
}

/** The session of a broker: a phrase, what it means, and the part of its time that is left while it is silent. */
function sessionOf(node, state, us, timeout) {
  const isRegistered = state.zookeeper.ids.has(String(node.broker_id));
  const whole = node.session?.timeout_ms ?? timeout ?? null;
  if (node.silent_since_us !== null && isRegistered && whole !== null) {
    const left = Math.max(0, whole - (us - node.silent_since_us) / 1000);
    const phrase = left > 0
      ? `«session: »${duration(left * 1000)} left` : "«session: »expires any moment";
    return { phrase, left: left / whole, means: "ZooKeeper gets no heartbeats, and ends the session at its timeout" };
  }
  if (node.session !== null && node.life !== "dead") {
    const believed = node.session.is_connected ? "connected" : "connection lost";
    return isRegistered
      ? { phrase: `«session: »${believed}`, left: null, means: "as the broker knows it; it is registered" }
      : { phrase: "«session: »over«, not noticed»", left: null, means: "ended, not noticed by the broker yet" };
  }
  return isRegistered
    ? { phrase: "«session: »not recorded", left: null, means: "its registration is there" }
    : { phrase: "«session: »none", left: null, means: "ZooKeeper has no registration of it" };
}

function drawSession(cell, name, { phrase, left, means }, isReachable) {
  const [words, meter] = cell.children;
  setPhrase(words, phrase);
  setAttribute(meter, "hidden", left === null);
  if (left !== null) {
    setAttribute(meter, "value", left.toFixed(3));
  }
  explain(cell, `${nodeName(name)}, ${wholePhrase(phrase)}: ${means}`, isReachable);
}

/** What a broker leads and follows, and what it believes; `own` and `all` mark its own numbers, and the cluster's. */
function drawRole(column, name, node, state, { own, all }, isReachable) {
  const doing = role(node, own);
  setText(column.querySelector(".role"), doing);
  const life = `${LIFE_WORDS[node.life]}, start ${node.incarnation}`;
  const believed = beliefs(node);
  const behind = node.metadata_controller < 0 ? 0 : partitionsBehind(node, state);
  explain(column.querySelector(".process"), `${nodeName(name)}: the process is ${life}; it ${doing} partitions`,
    isReachable);
  const element = column.querySelector(".believed");
  setPhrase(element, believed);
  setAttribute(element, "class", `believed ${epochClass(node.metadata_epoch ?? 0)}`);
  const outOfDate = behind === 0 ? "" : `${behind} «partition${behind === 1 ? "" : "s"} »out of date${own || all}`;
  setPhrase(column.querySelector(".behind"), outOfDate);
  const read = [believed.replace("«metadata: »", "").replace("♛", "controller"), outOfDate].filter(Boolean);
  const words = `metadata cache of ${nodeName(name)}: ${wholePhrase(read.join("; "))}`;
  explain(column.querySelector(".metadata"), words, isReachable);
}

/** The events of a controller: the one in progress, those that wait, and the brokers that have not answered. */
function drawQueue(cell, name, node, us, isReachable) {
  const [event, waiting, awaited] = cell.children;
  const queue = [...node.queue];
  const brokers = [...node.channels].filter(([, each]) => each.in_flight !== null || each.unanswered !== null)
    .map(([to]) => to).sort((a, b) => a - b).join(", ");
  const isInside = node.term !== null || node.event !== null || queue.length > 0;
  const age = node.event === null ? "" : duration(us - node.event.since_us);
  const names = queue.slice(0, MOST_EVENTS).map((each) => each.event).join(", ");
  const idle = isInside ? "«queue: »idle" : "";
  setPhrase(event, node.event === null ? idle : `«▸\u00a0»${node.event.event} ${age.replace(" ", "\u00a0")}`);
  const [events, wait] = queue.length === 1 ? ["event", "waits"] : ["events", "wait"];
  const more = queue.length > MOST_EVENTS ? " …" : "";
  setPhrase(waiting, queue.length === 0 ? "" : `${queue.length} «${events} »${wait}«: ${names}${more}»`);
  setPhrase(awaited, brokers === "" || !isInside ? "" : `no answer: «broker »${brokers}`);
  setAttribute(cell, "data-part", isInside ? `queue:${name}` : null);
  explain(cell, isInside ? `event queue of the controller on ${nodeName(name)}: `
    + `${node.event === null ? "idle" : `${node.event.event} in progress for ${age}`}; `
    + `${count(queue.length, "event")} waiting${queue.length > 0 ? `: ${names}` : ""}`
    + `${brokers === "" ? "" : `; no answer so far from broker ${brokers}`}` : null, isReachable);
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

/** What a broker believes by its metadata cache. */
function beliefs(node) {
  const { metadata_controller: controller, metadata_epoch: epoch } = node;
  return `«metadata: »${controller < 0 ? "no controller" : `♛\u00a0${controller}, epoch\u00a0${epoch}`}`;
}

/** Draw a chip for each two servers of ZooKeeper whose link has a fault. */
function drawServerLinks(state) {
  const faults = new Map();
  for (const [link, fault] of state.links) {
    const ends = link.split(" -> ");
    const numbers = ends.map(serverNumber);
    if (!numbers.includes(null)) faults.set(`link:${ends.join(":")}`, { numbers, fault });
  }
  const list = byId("server-links");
  const chips = keyed(list, [...faults.keys()], (part) => h("li.chip", { "data-part": part, tabindex: 0 }));
  for (const [part, chip] of chips) {
    const { numbers, fault } = faults.get(part);
    setText(chip, `server ${numbers.join(" ✕ ")}`);
    setAttribute(chip, "title", `connection between ZooKeeper's servers ${numbers.join(" and ")}: ${fault}`);
  }
  setAttribute(list, "hidden", faults.size === 0);
}

/** How many partitions of its metadata cache are behind ZooKeeper. */
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
        const text = `↻ «${data.what}: »leader epoch ${data.known} now«, no longer ${data.offered}»`;
        return { kind: "routine", isFence: true, text };
      }
      return data.switched_off
        ? { kind: "off", isFence: true, text: `⚠ lets pass« ${data.what}» (${data.fence} is off)` }
        : { kind: "refused", isFence: true, text: `⊘ refuses« ${data.what}»: `
          + `offered ${data.offered}, known ${data.known}` };
    case "ControllerElected":
      return { kind: "won", text: `♛ wins« the election», epoch\u00a0${data.epoch}` };
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
