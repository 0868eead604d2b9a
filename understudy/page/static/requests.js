/**
 * The clients of a process as `#fold` follows them, by their own records: a part of `#fold`, in Python
 * `tests/understudy/page/folding/fold_clients.py`.
 *
 * A client is never changed but replaced, and so is each of its batches and commits.
 */

import { less, writable } from "#state";
import { Table, TopicTable } from "#tables";

function newClient({ owner }) {
  return {
    waiting: new TopicTable(owner), sent: new TopicTable(owner), reads: new TopicTable(owner),
    commits: new TopicTable(owner), lookup: null, connections: new Table(owner), groups: new Table(owner),
  };
}

function changeClient(state, node, id, changesOf) {
  const client = node.clients.get(id) ?? newClient(state);
  writable(state, node, "clients").set(id, { ...client, ...changesOf(client) });
}

function put(state, table, { topic, partition }, value) {
  const found = table.writableBy(state.owner);
  if (value === undefined) found.remove(topic, String(partition));
  else found.put(topic, String(partition), value);
  return found;
}

function set(state, table, key, value) {
  const found = table.writableBy(state.owner);
  found.set(key, value);
  return found;
}

/** Adds a `ClientConnection`. */
export function clientConnection(state, node, data, [us]) {
  changeClient(state, node, data.client_id, ({ connections }) => {
    const known = connections.get(data.broker);
    const isTried = known !== undefined && known.state !== "connected" && data.state !== "connected";
    const since_us = isTried ? known.since_us : us;
    const reason = isTried && data.reason === "" ? known.reason : data.reason;
    return { connections: set(state, connections, data.broker, { state: data.state, since_us, reason }) };
  });
}

/** Adds a `MemberTransition`. */
export function memberTransition(state, node, data, [us]) {
  changeClient(state, node, data.client_id, ({ groups }) => {
    const known = groups.get(data.group);
    const { target, generation, member_id, coordinator, partitions, reason } = data;
    const since_us = known?.state === target ? known.since_us : us;
    const membership = { state: target, since_us, generation, member_id, coordinator, partitions, reason };
    return { groups: set(state, groups, data.group, membership) };
  });
}

const BEGAN = new Map(Object.entries({
  Produce: sendBegan, Fetch: readBegan, OffsetCommit: commitBegan, Metadata: lookupBegan,
}));
const ENDED = new Map(Object.entries({
  Produce: sendEnded, Fetch: readEnded, OffsetCommit: commitEnded, Metadata: lookupEnded,
}));

/** Adds a `ClientRequestBegan`. */
export function clientRequestBegan(state, node, data, [us]) {
  changeClient(state, node, data.client_id, (client) => BEGAN.get(data.api)?.(state, client, data, us));
}

/** Adds a `ClientRequestEnded`. */
export function clientRequestEnded(state, node, data, [us]) {
  changeClient(state, node, data.client_id, (client) => ENDED.get(data.api)?.(state, client, data, us));
}

// ------------------------------------------------------------------ records that are sent

/** Adds a batch, or a further attempt to send one that could not be sent, or has failed. */
function sendBegan(state, { waiting }, data, us) {
  const known = waiting.at(data.topic, String(data.partition)) ?? [];
  const again = known.find((each) => each.records === data.records && !isSent(each));
  const error = data.broker === "" ? again?.error ?? null : null;
  const { records, attempt, broker } = data;
  const batch = { records, since_us: again?.since_us ?? us, attempt, broker, error };
  const batches = again === undefined ? [...known, batch] : known.map((each) => (each === again ? batch : each));
  return { waiting: put(state, waiting, data, batches) };
}

function sendEnded(state, { waiting, sent }, data) {
  const known = waiting.at(data.topic, String(data.partition)) ?? [];
  const same = known.filter((each) => each.records === data.records);
  const first = same.find((each) => isSent(each) === (data.broker !== "")) ?? same[0];
  const { records, offset, error, attempt } = data;
  const left = data.is_sent_again
    ? known.map((each) => (each === first ? { ...each, attempt, error } : each))
    : known.filter((each) => each !== first);
  return {
    waiting: put(state, waiting, data, left.length > 0 ? left : undefined),
    sent: data.is_sent_again ? sent : put(state, sent, data, { records, offset, error }),
  };
}

/** Whether an attempt to send a batch, or to commit an offset, is under way. */
export function isSent({ broker, error }) {
  return broker !== "" && error === null;
}

// ------------------------------------------------------------------ offsets that are committed

function commitBegan(state, { commits }, data, us) {
  const known = commits.at(data.topic, String(data.partition));
  const again = known?.offset === data.offset ? known : undefined;
  const error = data.broker === "" ? again?.error ?? null : null;
  const commit = { offset: data.offset, since_us: again?.since_us ?? us, broker: data.broker, error };
  return { commits: put(state, commits, data, commit) };
}

function commitEnded(state, { commits }, data) {
  const known = commits.at(data.topic, String(data.partition));
  const left = data.is_sent_again && known !== undefined ? { ...known, error: data.error } : undefined;
  return { commits: put(state, commits, data, left) };
}

// ------------------------------------------------------------------ records that are read, and metadata

function readBegan(state, { reads }, data) {
  return { reads: put(state, reads, data, { position: data.offset, broker: data.broker, error: null }) };
}

function readEnded(state, { reads }, data) {
  const before = reads.at(data.topic, String(data.partition))?.position ?? -1;
  const position = less(data.next_offset, 0) ? before : data.next_offset;
  const error = data.error === "NONE" ? null : data.error;
  return { reads: put(state, reads, data, { position, broker: data.broker, error }) };
}

function lookupBegan(state, client, data, us) {
  return { lookup: { broker: data.broker, since_us: us, error: null } };
}

function lookupEnded(state, { lookup }, data, us) {
  if (data.error === "NONE") return { lookup: null };
  const since_us = lookup?.broker === data.broker ? lookup.since_us : us;
  return { lookup: { broker: data.broker, since_us, error: data.error } };
}
