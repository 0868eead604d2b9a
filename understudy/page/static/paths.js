/**
 * The persistent znodes that `#fold` follows, but for the states of partitions: what brokers write and what their
 * watches say. `zookeeper.others` has, by path, the number of the record that has created a znode and of the one that
 * has changed it last, null if no record has, and a zxid at or after the change; `zookeeper.deleted` has, by path, the
 * number of the record that has deleted a znode.
 */

import { writable } from "#state";
import { hasSeen, noteDeleted, noteExists, writableOf, znodeDeleted } from "#znodes";

/** Paths that other records say more about. */
const ELSEWHERE = /^\/controller(_epoch)?$|^\/brokers\/ids\/|^\/brokers\/topics\/[^/]*\/partitions(\/|$)/;
/** Znodes whose children ZooKeeper numbers; a record of their creation has no number. */
const NUMBERED = /^(\/isr_change_notification|\/log_dir_event_notification|\/config\/changes)\/[^]+$/;
const TOPICS = "/brokers/topics/";
/** Purposes of writes that only create, only delete, or do one of these two. */
const CREATING = new Set(["top-level-paths", "cluster-id"]);
const DELETING = new Set(["config-purge"]);
const MARKING = new Set(["topic-deletion", "preferred-election"]);

/** Notes a write that waits for its outcome. */
export function zkWrite(state, node, data, record) {
  const { purpose, paths, fenced } = data;
  writable(state, node, "writes").set(String(record[3]), { purpose, paths, fenced });
}

/** Notes what a write has done to its znodes, as far as its purpose says it. */
export function zkWriteDone(state, node, data, record) {
  const write = node.writes.get(String(record[5]));
  if (write === undefined) return;
  writable(state, node, "writes").delete(String(record[5]));
  const paths = new Set(write.paths.map((path) => path.replace(NUMBERED, "$1")));
  for (const path of [...paths].filter((each) => !ELSEWHERE.test(each))) {
    if (data.outcome === "Ok") written(state, path, write, record[6]);
    else if (data.outcome === "NodeExists" && write.paths.length === 1) seen(state, path);
  }
}

function written(state, path, { purpose, fenced, paths }, zxid) {
  const isThere = state.zookeeper.others.has(path);
  const isNumbered = !paths.includes(path);
  if (!isNumbered && (DELETING.has(purpose) || MARKING.has(purpose) && (fenced || isThere))) {
    deleted(state, path);
    return;
  }
  const isNew = CREATING.has(purpose) || MARKING.has(purpose) || state.zookeeper.deleted.has(path);
  const created = isNew ? state.records : state.zookeeper.others.get(path)?.created ?? null;
  put(state, path, { created, changed: state.records, zxid });
}

/** Takes over topics that a controller has found, and forgets those that it does not find any more. */
export function topicsOnRecord(state, data) {
  for (const topic of data.new) seen(state, TOPICS + topic);
  for (const topic of data.deleted) deleted(state, TOPICS + topic);
}

/** Notes what a watch says of a znode. */
export function watchFired(state, node, data, record) {
  if (data.kind === "deleted") pathDeleted(state, data.path, record[6]);
  else if (!ELSEWHERE.test(data.path) && (data.kind === "created" || !state.zookeeper.deleted.has(data.path))) {
    seen(state, data.path);
  }
}

/** Deletes the znode at `path`, unless it was written after what a reader at `zxid` has seen. */
export function pathDeleted(state, path, zxid) {
  if (ELSEWHERE.test(path)) znodeDeleted(state, path, zxid);
  else if (state.zookeeper.others.has(path) && hasSeen(zxid, state.zookeeper.others.get(path).zxid)) {
    deleted(state, path);
  }
}

function seen(state, path) {
  if (!state.zookeeper.others.has(path)) put(state, path, { created: null, changed: null, zxid: 0 });
}

function put(state, path, znode) {
  writableOf(state, "others").set(path, znode);
  noteExists(state, path);
}

function deleted(state, path) {
  if (state.zookeeper.others.has(path)) writableOf(state, "others").delete(path);
  noteDeleted(state, path);
}
