/**
 * Adds records, one at a time, to the state of a cluster: the same as `tests/understudy/page/folding/fold.py` does.
 *
 * A state has what the records contain and nothing else; `tests/understudy/page/folding/fold_state.py` describes its
 * fields. Its parts may contradict each other, as the brokers do. Any record is accepted in any order.
 *
 * Views read a state and never write to it. They read its maps with `entries(map)` and `get(map, key)`, whose keys are
 * texts, also those of partitions and brokers: `get(get(state.partitions, "orders"), "0")` is an array, in the order of
 * `LEADERSHIP`. Maps are `nodes`, `groups`, `links`, `fences`, `in_flight`, `zookeeper.ids`, `partitions` and
 * `acknowledged` (by topic, then by partition) and, of a node, `channels`, `coordinates`, `believes`, `metadata`,
 * `partition_states`, `logs` (by topic, then by partition) and `replica_states` (by topic, partition and broker). A
 * node's `queue` has a `length` and is iterated. Its map `clients` has objects with maps of their own: `waiting`,
 * `sent` and `reads` (by topic, then by partition), `connections` and `groups`. Everything else are plain objects and
 * arrays. An integer that a double cannot hold is a text in hexadecimal.
 */

import {
  atReceiver, channelClosed, channelOpened, dropRequestsFrom, requestEnded, requestFailed, requestQueued, requestSent,
} from "#channels";
import { groupAssigned, groupOffsets, groupTransition, groupsLoaded, groupsUnloaded } from "#coordinators";
import {
  highWatermarkChanged, leaderStarted, logOpened, logTruncated, recordsAcknowledged, recordsAppended,
} from "#offsets";
import { pathDeleted, topicsOnRecord, watchFired, zkWrite, zkWriteDone } from "#paths";
import { clientConnection, clientRequestBegan, clientRequestEnded, memberTransition } from "#requests";
import { larger, less, newNode, putNode, writable, writableNode } from "#state";
import { Table, TopicTable } from "#tables";
import {
  changeZooKeeper, deleteController, deregister, endSession, liveBrokers, noteExists, register, zooKeeperRuns,
} from "#znodes";

export { canonical, document, emptyState, integer, snapshot } from "#state";

/** The places of the fields in the array of a partition's leadership. */
export const LEADERSHIP = Object.freeze({
  topic: 0, partition: 1, leader: 2, leader_epoch: 3, isr: 4, partition_epoch: 5, controller_epoch: 6, recovery: 7,
});

const DELETED_LEADER = -2;
const GRACE_US = 1_000_000;
const LIFE_AFTER = new Map([
  ["kill", "dead"], ["power_loss", "dead"], ["crash", "dead"], ["pause", "paused"], ["resume", "running"],
  ["continue", "running"],  // as older runs call it
  ["stop", "stopping"],
]);
const ZOOKEEPER_LIFE_AFTER = new Map([...LIFE_AFTER, ["stop", "dead"], ["start", "running"]]);
const LINK_FAULTS = new Set(["cut", "delay", "throttle", "split", "refuse", "hold-watch", "isolate"]);
const SILENCING = new Set(["cut", "refuse", "isolate"]);

/**
 * Adds a record to a state, which is changed.
 * @param {object} state of `emptyState` or `snapshot`
 * @param {Array} record `[us, node, incarnation, seq, type, cause, zxid, controller_epoch, data, words, link]`
 */
export function fold(state, record) {
  const [us, name, incarnation] = record;
  state.records += 1;
  state.us = Math.max(state.us, us);
  const known = state.nodes.get(name);
  if (known !== undefined && less(incarnation, known.incarnation)) return; // a late record of an earlier process
  const isNew = known === undefined || incarnation !== known.incarnation;
  if (isNew) dropRequestsFrom(state, name);
  const node = isNew ? putNode(state, name, newNode(state.owner, known, incarnation, us)) : writableNode(state, name);
  seen(node, record);
  HANDLERS.get(record[4])?.(state, node, record[8], record);
}

/** Returns the keys and values of a map of a state. */
export function entries(map) {
  return map.entries();
}

/** Returns a value of a map of a state; undefined where there is none. */
export function get(map, key) {
  return map.get(String(key));
}

// ------------------------------------------------------------------ nodes

function seen(node, record) {
  const us = record[0];
  // What a node wrote between the record of a fault and the fault itself does not show that it runs.
  if ((node.life === "dead" || node.life === "paused") && us - node.life_since_us > GRACE_US) runs(node, us);
  node.zxid = larger(node.zxid, record[6]);
  node.controller_epoch = larger(node.controller_epoch, record[7]);
  node.last_seq = record[3];
  node.last_us = us;
}

function setLife(node, life, us) {
  if (node.life !== life) node.life_since_us = us;
  node.life = life;
}

function runs(node, us) {
  setLife(node, "running", us);
  node.point = null;
  heartbeatsArrive(node);
}

function heartbeatsArrive(node) {
  if (node.session === null || node.session.is_connected) node.silent_since_us = null;
}

function silent(node, us) {
  node.silent_since_us ??= us;
}

/** Forgets a controller's memory. What it had begun to send will get no answer. */
function forgetTerm(state, node, name) {
  node.term = null;
  forgetStates(state, node);
  dropRequestsFrom(state, name);
  if (node.channels.size > 0) node.channels = new Table(state.owner);
}

function forgetStates(state, node) {
  node.partition_states = new TopicTable(state.owner);
  node.replica_states = new TopicTable(state.owner);
}

// ------------------------------------------------------------------ faults

function faultInjected(state, target, fault, us) {
  state.last_fault = `${fault} ${target}`;
  if (fault === "depose") deleteController(state);
  else if (fault === "delete") pathDeleted(state, target, 0);
  else if (fault === "expire") endSession(state, target, null);
  if (target === "zookeeper") {
    const life = ZOOKEEPER_LIFE_AFTER.get(fault);
    if (life !== undefined) changeZooKeeper(state, { life });
  }
  linkFault(state, target, fault, us);
  if (LIFE_AFTER.has(fault) && state.nodes.has(target)) lifeFault(state, target, LIFE_AFTER.get(fault), us);
}

function lifeFault(state, name, life, us) {
  const node = writableNode(state, name);
  if (life === "running") runs(node, us);
  else if (life !== "stopping") silent(node, us);
  if (life === "dead") forgetTerm(state, node, name);
  if (life !== "stopping" || node.life !== "dead") setLife(node, life, us);
}

function linkFault(state, target, fault, us) {
  const [from, to, more] = target.split(" -> ");
  if (more !== undefined || (to ?? "").includes(": ")) return;
  if (fault === "heal") heal(state, from, to);
  else if (LINK_FAULTS.has(fault)) {
    for (const one of from.split(", ")) {
      for (const other of (to ?? "all").split(", ")) {
        writable(state, state, "links").set(`${one} -> ${other}`, fault);
        const isSilent = SILENCING.has(fault) && (other === "zookeeper" || fault === "isolate");
        if (isSilent && state.nodes.has(one)) silent(writableNode(state, one), us);
      }
    }
  }
}

function heal(state, from, to) {
  let isHealed = () => true;
  if (to !== undefined) {
    const pairs = new Set();
    for (const one of from.split(", ")) {
      for (const other of to.split(", ")) pairs.add(`${one} -> ${other}`).add(`${other} -> ${one}`);
    }
    isHealed = (link) => pairs.has(link);
  } else if (from !== "all links") {
    isHealed = (link) => link.startsWith(`${from} -> `) || link.endsWith(` -> ${from}`);
  }
  for (const link of [...state.links.keys()].filter(isHealed)) {
    writable(state, state, "links").delete(link);
    const name = link.split(" -> ")[0];
    if (state.nodes.get(name)?.life === "running") heartbeatsArrive(writableNode(state, name));
  }
}

// ------------------------------------------------------------------ the controller

function elected(state, node, data, record) {
  const name = record[1];
  forgetTerm(state, node, name);
  node.term = { epoch: data.epoch, is_ready: false };
  if (!less(data.epoch, state.zookeeper.controller_epoch)) {
    const version = less(data.epoch_zk_version, 0) ? null : data.epoch_zk_version;
    changeZooKeeper(state, {
      controller_epoch: data.epoch, controller_epoch_version: version, controller_epoch_changed: state.records,
    });
  }
  if (state.controller !== null && !less(state.controller.epoch, data.epoch)) return;
  const { broker_id, epoch } = data;
  const process = { node: name, incarnation: record[2] };
  state.controller = { broker_id, epoch, ...process, is_ready: false, has_resigned: false, is_gone: false };
  const znode = { broker_id, epoch, node: name, session: data.session_id, zxid: record[6], created: state.records };
  changeZooKeeper(state, { controller: znode });
  noteExists(state, "/controller");
}

function resigned(state, node, data, record) {
  forgetTerm(state, node, record[1]);
  if (state.controller?.epoch === data.epoch) state.controller = { ...state.controller, has_resigned: true };
}

function ready(state, node, data) {
  if (node.term?.epoch === data.epoch) node.term = { ...node.term, is_ready: true };
  if (state.controller?.epoch === data.epoch) state.controller = { ...state.controller, is_ready: true };
}

function contextLoaded(state, node, data, record) {
  const live = new Set(data.live_brokers.map(([id]) => id));
  forgetStates(state, node);
  for (const [topic, partition, leader, , isr] of data.partitions) {
    const key = String(partition);
    node.partition_states.put(topic, key, live.has(leader) ? "OnlinePartition" : "OfflinePartition");
    const online = isr.filter((replica) => live.has(replica)).map((replica) => [String(replica), "OnlineReplica"]);
    if (online.length > 0) node.replica_states.put(topic, key, new Map(online));
    else node.replica_states.remove(topic, key);
  }
  leadershipWritten(state, data.partitions, false);
  if (less(data.epoch, state.zookeeper.controller_epoch)) return;
  if (less(state.zookeeper.controller_epoch, data.epoch)) {
    changeZooKeeper(state, {
      controller_epoch: data.epoch, controller_epoch_version: null, controller_epoch_changed: null,
    });
  }
  liveBrokers(state, data.live_brokers, record[6]);
}

function brokersChanged(state, node, data, record) {
  if (node.term !== null && less(node.term.epoch, state.zookeeper.controller_epoch)) return;
  const dead = new Set(data.dead.map(String));
  const live = new Set(data.live.map(String));
  deregister(state, (id) => dead.has(id) || !live.has(id), record[6]);
  for (const id of data.new.map(String)) {
    if (!state.zookeeper.ids.has(id)) register(state, id, foundRegistration(state, `broker-${id}`));
  }
}

/** A registration that a controller has found, with what the broker's own records say of it. */
function foundRegistration(state, name) {
  const { broker_epoch: epoch = null, session = null } = state.nodes.get(name) ?? {};
  const isOwn = epoch !== null && session !== null;
  return { epoch: isOwn ? epoch : null, session: isOwn ? session.id : null, node: name, created: null };
}

function partitionsMoved(state, node, data) {
  const states = writable(state, node, "partition_states");
  for (const [topic, partition] of data.partitions) {
    if (data.target.startsWith("NonExistent")) states.remove(topic, String(partition));
    else states.put(topic, String(partition), data.target);
  }
}

function replicasMoved(state, node, data) {
  const table = writable(state, node, "replica_states");
  for (const [topic, partition, replica] of data.replicas) {
    const states = new Map(table.at(topic, String(partition)));
    if (data.target.startsWith("NonExistent")) states.delete(String(replica));
    else states.set(String(replica), data.target);
    if (states.size > 0) table.put(topic, String(partition), states);
    else table.remove(topic, String(partition));
  }
}

/**
 * Replaces states by newer ones: the records of a paused controller may come late. A state that is only read was
 * written by a record that is not there, unless it is known already.
 */
function leadershipWritten(state, leaderships, isWritten) {
  if (leaderships.length === 0) return;
  const table = writable(state, state, "partitions");
  const written = writable(state, state, "written");
  for (const each of leaderships) {
    const partition = String(each[1]);
    const known = table.at(each[0], partition);
    if (known !== undefined && isOlder(each, known)) continue;
    table.put(each[0], partition, each);
    if (isWritten) written.put(each[0], partition, state.records);
    else if (known === undefined || isOlder(known, each)) written.remove(each[0], partition);
  }
}

function isOlder(one, other) {
  for (const place of [LEADERSHIP.controller_epoch, LEADERSHIP.leader_epoch, LEADERSHIP.partition_epoch]) {
    if (one[place] !== other[place]) return less(one[place], other[place]);
  }
  return false;
}

function topicsChanged(state, data) {
  topicsOnRecord(state, data);
  for (const topic of data.deleted) {
    if (state.partitions.has(topic)) writable(state, state, "partitions").delete(topic);
    if (state.written.has(topic)) writable(state, state, "written").delete(topic);
    if (state.acknowledged.has(topic)) writable(state, state, "acknowledged").delete(topic);
  }
}

function eventQueued(state, node, data, [us]) {
  const event = { id: data.event_id, event: data.event, since_us: us };
  writable(state, node, "queue").set(String(data.event_id), event);
}

function leaveQueue(state, node, id) {
  if (node.queue.has(String(id))) writable(state, node, "queue").delete(String(id));
}

function eventStarted(state, node, data, [us]) {
  leaveQueue(state, node, data.event_id);
  node.event = { id: data.event_id, event: data.event, since_us: us };
}

function eventEnded(state, node) {
  node.event = null;
}

function eventPreempted(state, node, data) {
  leaveQueue(state, node, data.event_id);
  if (node.event?.id === data.event_id) node.event = null;
}

// ------------------------------------------------------------------ brokers

function sessionOpened(state, node, data) {
  node.session = { id: data.session_id, timeout_ms: data.timeout_ms, is_connected: true };
  node.silent_since_us = null;
  zooKeeperRuns(state);
}

function sessionConnected(node, id, isConnected) {
  node.session = { id, timeout_ms: node.session?.timeout_ms ?? null, is_connected: isConnected };
}

function sessionSuspended(state, node, data, [us]) {
  sessionConnected(node, data.session_id, false);
  silent(node, us);
}

function sessionResumed(state, node, data) {
  sessionConnected(node, data.session_id, true);
  node.silent_since_us = null;
}

function leaveSession(node) {
  node.session = null;
  node.broker_epoch = null;
  node.silent_since_us = null;
}

function sessionExpired(state, node, data, record) {
  leaveSession(node);
  endSession(state, record[1], data.session_id);
}

function registered(state, node, { broker_id, broker_epoch, session_id }, record) {
  node.broker_id = broker_id;
  node.broker_epoch = broker_epoch;
  zooKeeperRuns(state);
  const created = state.records;
  register(state, String(broker_id), { epoch: broker_epoch, session: session_id, node: record[1], created });
}

function exiting(state, node, data, record) {
  const [us, name] = record;
  setLife(node, "dead", us);
  leaveSession(node);
  forgetTerm(state, node, name);
  endSession(state, name, null);
}

function putStates(table, leaderships) {
  for (const each of leaderships) {
    if (each[LEADERSHIP.leader] === DELETED_LEADER) table.remove(each[0], String(each[1]));
    else table.put(each[0], String(each[1]), each);
  }
}

function leaderAndIsr(state, node, data) {
  const table = writable(state, node, "believes");
  putStates(table, data.leaders);
  putStates(table, data.followers);
  for (const each of data.followers) {
    const log = node.logs.at(each[0], String(each[1]));
    if (log === undefined) continue;
    const changes = { role: "follower", leader_epoch: each[LEADERSHIP.leader_epoch] };
    writable(state, node, "logs").put(each[0], String(each[1]), { ...log, ...changes });
  }
}

function stopReplica(state, node, data) {
  for (const [topic, partition, , isDeleted] of data.partitions) {
    writable(state, node, "believes").remove(topic, String(partition));
    if (isDeleted) writable(state, node, "logs").remove(topic, String(partition));
  }
}

function metadataUpdated(state, node, data) {
  putStates(writable(state, node, "metadata"), data.partitions);
  node.metadata_controller = data.controller_id;
  node.metadata_epoch = data.request_controller_epoch;
  node.metadata_brokers = data.live_brokers;
}

// ------------------------------------------------------------------ the run

function fenceHit(state, node, data) {
  writable(state, state, "fences").set(data.fence, (state.fences.get(data.fence) ?? 0) + 1);
}

function pointReached(state, node, data, [us, name]) {
  node.point = { point: data.point, action: data.action, us };
  faultInjected(state, name, data.action, us);
}

/** Takes each setting from the first record that has it. */
function runDescribed(state, node, data) {
  const settings = { ...state.settings };
  for (const name of Object.keys(settings)) {
    if (settings[name] === null || settings[name] === "") settings[name] = data[name];
  }
  state.settings = settings;
}

const HANDLERS = new Map(Object.entries({
  ProcessStarted: (state, node, data) => {
    node.role = data.role;
    node.broker_id = data.broker_id;
    node.pid = data.pid;
  },
  ProcessExiting: exiting,
  SessionOpened: sessionOpened,
  SessionSuspended: sessionSuspended,
  SessionResumed: sessionResumed,
  SessionExpired: sessionExpired,
  BrokerRegistered: registered,
  WatchFired: watchFired,
  ZkWrite: zkWrite,
  ZkWriteDone: zkWriteDone,
  EventQueued: eventQueued,
  EventStarted: eventStarted,
  EventEnded: eventEnded,
  EventPreempted: eventPreempted,
  ControllerElected: elected,
  ControllerReady: ready,
  ControllerResigned: resigned,
  ContextLoaded: contextLoaded,
  BrokersChanged: brokersChanged,
  TopicsChanged: (state, node, data) => topicsChanged(state, data),
  PartitionsMoved: partitionsMoved,
  ReplicasMoved: replicasMoved,
  LeadershipWritten: (state, node, data) => leadershipWritten(state, data.partitions, true),
  ChannelOpened: channelOpened,
  ChannelClosed: channelClosed,
  RequestQueued: requestQueued,
  RequestSent: requestSent,
  ResponseReceived: requestEnded,
  RequestFailed: requestFailed,
  RequestReceived: (state, node, data) => atReceiver(state, node, data, { is_received: true }),
  ResponseSent: (state, node, data) => atReceiver(state, node, data, { is_received: true, answer: data.error }),
  LeaderAndIsrApplied: leaderAndIsr,
  StopReplicaApplied: stopReplica,
  MetadataUpdated: metadataUpdated,
  LogOpened: logOpened,
  LeaderStarted: leaderStarted,
  RecordsAppended: recordsAppended,
  HighWatermarkChanged: highWatermarkChanged,
  LogTruncated: logTruncated,
  RecordsAcknowledged: (state, node, data) => recordsAcknowledged(state, data),
  GroupTransition: groupTransition,
  GroupAssigned: groupAssigned,
  GroupsLoaded: groupsLoaded,
  GroupsUnloaded: groupsUnloaded,
  OffsetsCommitted: (state, node, data, record) => groupOffsets(state, node, data, record, false),
  OffsetsRemoved: (state, node, data, record) => groupOffsets(state, node, data, record, true),
  ClientConnection: clientConnection,
  ClientRequestBegan: clientRequestBegan,
  ClientRequestEnded: clientRequestEnded,
  MemberTransition: memberTransition,
  FenceHit: fenceHit,
  PointReached: pointReached,
  FaultInjected: (state, node, data, [us]) => faultInjected(state, data.target, data.fault, us),
  StepReached: (state, node, data) => {
    state.step = data.step;
  },
  RunDescribed: runDescribed,
}));
