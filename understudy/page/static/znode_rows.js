/**
 * The znodes of a state as rows of a tree: which are below which, and what the records say of each. Levels that are
 * closed have no rows, and of many children only the first have one.
 */

import { LEADERSHIP, entries } from "#fold";

/** How many children of a znode have a row at first, and how many more when more are asked for. */
const MOST = 30;
const IDS = "/brokers/ids/";
const TOPICS = "/brokers/topics";
/** The znodes that have the first rows, from the last of them to the first. */
const FIRST = ["brokers", "controller_epoch", "controller"];
const TOPIC = /^\/brokers\/topics\/([^/]*)(\/partitions(?:\/(\d+)\/state)?)?$/;
/** What stands for what no record says. */
export const UNKNOWN = "?";

/** Lists the rows of a tree, and keeps which levels are open. */
export class ZnodeRows {
  constructor() {
    this.open = new Set(["/brokers", "/brokers/ids", TOPICS, "/admin"]);
    /** Only topics whose name has this text are listed. */
    this.topic = "";
    this._limits = new Map();
    this._index = { of: null, below: new Map() };
  }

  /** Open or close a level; list more of one that leaves out some. */
  toggle({ path, left, parent }) {
    if (left > 0) {
      this._limits.set(parent, (this._limits.get(parent) ?? MOST) + MOST);
    } else if (!this.open.delete(path)) {
      this.open.add(path);
    }
  }

  /**
   * The rows of a state.
   * @param {object} state
   * @param {string[]} wanted paths that have a row in any case, with the levels above them
   * @returns {{path: string, name: string, level: number, below: number, isOpen: boolean, left: number,
   *   parent: string}[]} `left` is above 0 for a row that stands for children without a row
   */
  list(state, wanted) {
    const forced = new Map();
    for (const path of wanted) {
      for (let at = path; at !== "/"; at = parentOf(at)) {
        put(forced, parentOf(at), nameOf(at));
      }
    }
    const rows = [];
    this._add(rows, state, "/", 1, forced);
    return rows;
  }

  _add(rows, state, parent, level, forced) {
    const names = this._below(state, parent, forced);
    const limit = this._limits.get(parent) ?? MOST;
    const needed = forced.get(parent) ?? new Set();
    const shown = names.length <= limit ? names : names.filter((name, place) => place < limit || needed.has(name));
    for (const name of shown) {
      const path = parent === "/" ? `/${name}` : `${parent}/${name}`;
      const below = this._below(state, path, forced).length;
      const isOpen = below > 0 && (this.open.has(path) || forced.has(path));
      rows.push({ path, name, level, below, isOpen, left: 0, parent });
      if (isOpen) {
        this._add(rows, state, path, level + 1, forced);
      }
    }
    const left = names.length - shown.length;
    if (left > 0) {
      rows.push({ path: `${parent}/…`, name: "…", level, below: 0, isOpen: false, left, parent });
    }
  }

  /** The names of the znodes below a path, numbers in their order. The state of a partition is one row with it. */
  _below(state, path, forced) {
    const names = new Set([...named(state, path), ...this._written(state).get(path) ?? [], ...forced.get(path) ?? []]);
    const isWanted = path === TOPICS && this.topic !== ""
      ? (name) => name.includes(this.topic) || forced.get(path)?.has(name) : () => true;
    return [...names].filter(isWanted).sort(path === "/" ? ofTheRoot : inOrder);
  }

  /** The names below each path, of the znodes that the state has by their paths. */
  _written({ zookeeper: { others } }) {
    if (this._index.of !== others) {
      this._index = { of: others, below: new Map() };
      for (const [path] of entries(others)) {
        for (let at = path; at.startsWith("/") && at !== "/"; at = parentOf(at)) {
          put(this._index.below, parentOf(at), nameOf(at));
        }
      }
    }
    return this._index.below;
  }
}

/** What the records say of the znode at a path. `created` and `changed` number records, null if none says it. */
export function znodeAt(state, path) {
  const { zookeeper } = state;
  const { controller, controller_epoch: epoch } = zookeeper;
  if (path === "/controller" && controller !== null) {
    return ephemeral(controller, { data: `{"brokerid":${controller.broker_id},…}`, version: 0 });
  }
  if (path === "/controller_epoch") {
    const { controller_epoch_version: version, controller_epoch_changed: changed } = zookeeper;
    return znode({ data: epoch === 0 && version === null ? UNKNOWN : String(epoch), version, changed });
  }
  const registration = path.startsWith(IDS) ? zookeeper.ids.get(path.slice(IDS.length)) : undefined;
  if (registration !== undefined) {
    return ephemeral(registration, { epoch: registration.epoch });
  }
  const [, topic, , partition] = TOPIC.exec(path) ?? [];
  const leadership = partition === undefined ? undefined : state.partitions.at(topic, partition);
  if (leadership !== undefined) {
    const version = leadership[LEADERSHIP.partition_epoch];
    return znode({ data: stateText(leadership), version, changed: state.written.at(topic, partition) ?? null });
  }
  const other = zookeeper.others.get(path);
  return other === undefined ? null : znode(other);
}

/** The paths of the znodes that the record which is shown has created, changed or deleted; `most` at most. */
export function changedAt(state, record, most) {
  const { zookeeper, records: n } = state;
  const { controller, ids, others, deleted } = zookeeper;
  const paths = [
    ...(controller?.created === n ? ["/controller"] : []),
    ...(zookeeper.controller_epoch_changed === n ? ["/controller_epoch"] : []),
    ...[...entries(ids)].filter(([, { created }]) => created === n).map(([id]) => IDS + id),
    ...[...entries(others)].filter(([, { changed }]) => changed === n).map(([path]) => path),
    ...[...entries(deleted)].filter(([, at]) => at === n).map(([path]) => path),
  ];
  for (const each of record?.[4] === "LeadershipWritten" ? record[8].partitions : []) {
    if (paths.length < most && state.written.at(each[0], String(each[1])) === n) {
      paths.push(`${TOPICS}/${each[0]}/partitions/${each[1]}/state`);
    }
  }
  return paths.slice(0, most);
}

/** What is known of a znode, where a record does not say it: nothing. */
function znode({ data = UNKNOWN, version = null, created = null, changed = null }) {
  return { data, version, created, changed, owner: null, session: null, epoch: null };
}

function ephemeral({ node, session, created }, more) {
  return { ...znode({ created, changed: created }), owner: node, session, epoch: null, ...more };
}

/** A partition's state with Kafka's keys in Kafka's order. */
function stateText(leadership) {
  const [, , leader, epoch, isr, , controllerEpoch, recovery] = leadership;
  const recovering = recovery === 0 ? "" : `"leader_recovery_state":${recovery},`;
  return `{"controller_epoch":${controllerEpoch},"leader":${leader},${recovering}"leader_epoch":${epoch},`
    + `"isr":[${isr.join(",")}],…}`;
}

/** The names below a path of the znodes that have a place of their own in a state. */
function named({ zookeeper, partitions }, path) {
  switch (path) {
    case "/":
      return FIRST;
    case "/brokers":
      return ["ids", "topics"];
    case "/brokers/ids":
      return zookeeper.ids.keys();
    case TOPICS:
      return partitions.keys();
    default: {
      const [, topic, below, partition] = TOPIC.exec(path) ?? [];
      if (topic === undefined || partition !== undefined || !partitions.has(topic)) {
        return [];
      }
      return below === undefined ? ["partitions"] : [...partitions.get(topic).keys()].map((each) => `${each}/state`);
    }
  }
}

function put(sets, key, value) {
  if (!sets.has(key)) {
    sets.set(key, new Set());
  }
  sets.get(key).add(value);
}

/** The path of the row above: the state of a partition is one row with its partition. */
function parentOf(path) {
  const at = path.slice(0, -nameOf(path).length - 1);
  return at === "" ? "/" : at;
}

function nameOf(path) {
  const partition = TOPIC.exec(path)?.[3];
  return partition === undefined ? path.slice(path.lastIndexOf("/") + 1) : `${partition}/state`;
}

/** What most is about comes first. */
function ofTheRoot(one, other) {
  return FIRST.indexOf(other) - FIRST.indexOf(one) || inOrder(one, other);
}

function inOrder(one, other) {
  return parseInt(one, 10) - parseInt(other, 10) || (one < other ? -1 : 1);
}
