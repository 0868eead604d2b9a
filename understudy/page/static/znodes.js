/** The ephemeral znodes that `#fold` follows: `/controller` and the registrations below `/brokers/ids`. */

import { less, writable } from "#state";

const REGISTRATIONS = "/brokers/ids/";
const CONTROLLER = "/controller";

/** Changes fields of what is known of ZooKeeper. */
export function changeZooKeeper(state, changes) {
  state.zookeeper = { ...state.zookeeper, ...changes };
}

/** Returns a table with znodes, ready to be written to. */
export function writableOf(state, field) {
  changeZooKeeper(state, {});
  return writable(state, state.zookeeper, field);
}

/** Notes that the present record deletes a znode. */
export function noteDeleted(state, path) {
  writableOf(state, "deleted").set(path, state.records);
}

/** Notes that a znode exists. */
export function noteExists(state, path) {
  if (state.zookeeper.deleted.has(path)) writableOf(state, "deleted").delete(path);
}

/** Puts a registration: its broker epoch, session, node, and the number of the record that has created it, or null. */
export function register(state, id, registration) {
  writableOf(state, "ids").set(id, registration);
  noteExists(state, REGISTRATIONS + id);
}

function deregisterId(state, id) {
  writableOf(state, "ids").delete(id);
  noteDeleted(state, REGISTRATIONS + id);
}

/** Notes that a server has answered, where nothing else is known of it. */
export function zooKeeperRuns(state) {
  if (state.zookeeper.life === "unknown") changeZooKeeper(state, { life: "running" });
}

/** Deletes `/controller`. */
export function deleteController(state) {
  if (state.zookeeper.controller !== null) noteDeleted(state, CONTROLLER);
  changeZooKeeper(state, { controller: null });
  if (state.controller !== null) state.controller = { ...state.controller, is_gone: true };
}

/** Removes the znodes of a node's session; of any session of it where `session` is null. */
export function endSession(state, name, session) {
  const owns = (found) => found.node === name && (session === null || (found.session ?? session) === session);
  const ended = [...state.zookeeper.ids].filter(([, found]) => owns(found));
  for (const [id] of ended) deregisterId(state, id);
  if (state.zookeeper.controller !== null && owns(state.zookeeper.controller)) deleteController(state);
}

/** Whether a reader that has seen `zxid` has seen what `created` created; true where one of them is not known. */
export function hasSeen(zxid, created) {
  return created === null || created === 0 || zxid === 0 || !less(zxid, created);
}

/** Deletes the znode at `path`, unless it was created after what a reader at `zxid` has seen. */
export function znodeDeleted(state, path, zxid) {
  const { controller, ids } = state.zookeeper;
  if (path === CONTROLLER) {
    if (controller === null || hasSeen(zxid, controller.zxid)) deleteController(state);
  } else if (path.startsWith(REGISTRATIONS)) {
    const id = path.slice(REGISTRATIONS.length);
    if (ids.has(id) && hasSeen(zxid, ids.get(id).epoch)) deregisterId(state, id);
  }
}

/** Deletes registrations, except those created after what a reader at `zxid` has seen. */
export function deregister(state, isGone, zxid) {
  const gone = [...state.zookeeper.ids].filter(([id, found]) => isGone(id) && hasSeen(zxid, found.epoch));
  for (const [id] of gone) deregisterId(state, id);
}

/** Takes over a list of all registrations that a reader at `zxid` has seen: [broker id, broker epoch] of each. */
export function liveBrokers(state, brokers, zxid) {
  const live = new Set(brokers.map(([id]) => String(id)));
  deregister(state, (id) => !live.has(id), zxid);
  for (const [broker, recorded] of brokers) {
    const id = String(broker);
    const epoch = less(0, recorded) ? recorded : null;
    const known = state.zookeeper.ids.get(id);
    const isOther = known === undefined || epoch !== null && known.epoch !== null && less(known.epoch, epoch);
    if (isOther) register(state, id, { epoch, session: null, node: `broker-${id}`, created: null });
    else if (epoch !== null && known.epoch === null) register(state, id, { ...known, epoch });
  }
}
