/**
 * The state of a cluster as `#fold` computes it: its beginning, copies of it, what is needed to write to it, and the
 * document that it has in common with `tests/understudy/page/folding/fold_document.py`.
 */

import { Queue, Table, TopicTable } from "#tables";

const OWNER = Symbol("owner");

/** Returns the state before the first record of a run. */
export function emptyState(run = "") {
  const owner = {};
  return {
    owner,
    run,
    us: 0,
    records: 0,
    step: "",
    last_fault: "",
    controller: null,
    zookeeper: {
      life: "unknown",
      controller: null,
      controller_epoch: 0,
      controller_epoch_version: null,
      controller_epoch_changed: null,
      ids: new Table(owner),
      others: new Table(owner),
      deleted: new Table(owner),
    },
    partitions: new TopicTable(owner),
    written: new TopicTable(owner),
    acknowledged: new TopicTable(owner),
    groups: new Table(owner),
    in_flight: new Table(owner),
    fences: new Table(owner),
    links: new Table(owner),
    settings: { world: "", brokers: null, session_timeout_ms: null, fault: "", seed: null },
    nodes: new Table(owner),
  };
}

/** Returns a copy of a state, at the cost of one small object; what is folded into one of the two leaves the other. */
export function snapshot(state) {
  state.owner = {};
  return { ...state, owner: {} };
}

/** Returns a node whose process has written its first record at `us`; `before` is the node with an earlier process. */
export function newNode(owner, before, incarnation, us) {
  return {
    [OWNER]: owner,
    life: "running",
    life_since_us: us,
    incarnation,
    role: before?.role ?? "",
    broker_id: before?.broker_id ?? -1,
    pid: 0,
    session: null,
    silent_since_us: null,
    broker_epoch: null,
    controller_epoch: 0,
    zxid: 0,
    term: null,
    point: null,
    event: null,
    queue: new Queue(owner),
    writes: new Table(owner),
    partition_states: new TopicTable(owner),
    replica_states: new TopicTable(owner),
    channels: new Table(owner),
    believes: new TopicTable(owner),
    metadata: new TopicTable(owner),
    metadata_controller: -1,
    metadata_epoch: -1,
    metadata_brokers: [],
    logs: new TopicTable(owner),
    coordinates: new Table(owner),
    clients: new Table(owner),
    last_seq: 0,
    last_us: us,
  };
}

/** Puts a node into a state, and returns it. */
export function putNode(state, name, node) {
  writable(state, state, "nodes").set(name, node);
  return node;
}

/** Returns a node of the state, ready to be written to. */
export function writableNode(state, name) {
  const node = state.nodes.get(name);
  return node[OWNER] === state.owner ? node : putNode(state, name, { ...node, [OWNER]: state.owner });
}

/** Returns the table in a field of `holder`, which is the state or a writable node, ready to be written to. */
export function writable(state, holder, field) {
  const table = holder[field].writableBy(state.owner);
  holder[field] = table;
  return table;
}

// ------------------------------------------------------------------ integers

/** Returns an integer of a record as a number, or as a BigInt where it is a text in hexadecimal. */
export function integer(value) {
  if (typeof value === "number") return value;
  return value.startsWith("-") ? -BigInt(value.slice(1)) : BigInt(value);
}

/** Whether an integer of a record is less than another. */
export function less(one, other) {
  return integer(one) < integer(other);
}

/** Returns the larger one of two integers of records. */
export function larger(one, other) {
  return less(one, other) ? other : one;
}

// ------------------------------------------------------------------ the document

/** Returns a state as plain objects and arrays, for `canonical`; equal to the document that Python makes. */
export function document(state) {
  const { owner, ...fields } = state;
  return {
    ...fields,
    zookeeper: {
      ...state.zookeeper,
      ids: plain(state.zookeeper.ids),
      others: plain(state.zookeeper.others),
      deleted: plain(state.zookeeper.deleted),
    },
    partitions: topics(state.partitions),
    written: topics(state.written),
    acknowledged: topics(state.acknowledged),
    groups: plain(state.groups, (group) => ({ ...group, offsets: topics(group.offsets) })),
    in_flight: plain(state.in_flight),
    fences: plain(state.fences),
    links: plain(state.links),
    nodes: plain(state.nodes, nodeDocument),
  };
}

function nodeDocument({ [OWNER]: owner, ...node }) {
  return {
    ...node,
    queue: [...node.queue],
    writes: plain(node.writes),
    partition_states: topics(node.partition_states),
    replica_states: topics(node.replica_states, plain),
    channels: plain(node.channels),
    believes: topics(node.believes),
    metadata: topics(node.metadata),
    logs: topics(node.logs),
    coordinates: plain(node.coordinates),
    clients: plain(node.clients, clientDocument),
  };
}

function clientDocument(client) {
  return {
    ...client,
    waiting: topics(client.waiting),
    sent: topics(client.sent),
    reads: topics(client.reads),
    commits: topics(client.commits),
    connections: plain(client.connections),
    groups: plain(client.groups),
  };
}

function topics(table, each) {
  return plain(table, (partitions) => plain(partitions, each));
}

function plain(table, each = (value) => value) {
  const object = Object.create(null); // `__proto__` is a key as any other
  for (const [key, value] of table.entries()) object[key] = each(value);
  return object;
}

/** Returns the JSON of a document, its keys sorted by code points, as Python's `json.dumps` writes it. */
export function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const pairs = Object.keys(value).sort(compareTexts).map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`);
  return `{${pairs.join(",")}}`;
}

/** Compares two texts by code points, as Python does. */
export function compareTexts(one, other) {
  const length = Math.min(one.length, other.length);
  for (let place = 0; place < length; place += 1) {
    const [a, b] = [one.charCodeAt(place), other.charCodeAt(place)];
    if (a !== b) return surrogatesLast(a) - surrogatesLast(b);
  }
  return one.length - other.length;
}

/** A surrogate belongs to a code point above all others. */
function surrogatesLast(unit) {
  return unit >= 0xd800 && unit <= 0xdfff ? unit + 0x10000 : unit;
}
