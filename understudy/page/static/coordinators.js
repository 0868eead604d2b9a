/**
 * Consumer groups as `#fold` follows them, by the records of their coordinators: a part of `#fold`, in Python
 * `tests/understudy/page/folding/fold_groups.py`.
 *
 * A group is never changed but replaced. What a partition of `__consumer_offsets` stores outlives the coordinator:
 * the broker that loads the partition next has the group as it was assigned last, and its committed offsets.
 */

import { less, writable } from "#state";
import { TopicTable } from "#tables";

function newGroup(state, partition) {
  return {
    partition, coordinator: "", leader_epoch: -1, state: "", generation: -1, members: 0, assigned_generation: -1,
    leader: "", assigned: [], offsets: new TopicTable(state.owner),
  };
}

/** Changes a group, unless another broker has loaded it in a later leader epoch. */
function changeGroup(state, node, name, data, changesOf) {
  const known = state.groups.get(data.group);
  const group = known?.partition === data.partition ? known : newGroup(state, data.partition);
  const leader_epoch = node.coordinates.get(String(data.partition)) ?? -1;
  if (group.coordinator !== name && less(leader_epoch, group.leader_epoch)) return;
  writable(state, state, "groups").set(data.group, { ...group, coordinator: name, leader_epoch, ...changesOf(group) });
}

/** Adds a `GroupTransition`. A group without members has stored that it has none. */
export function groupTransition(state, node, data, [, name]) {
  const { target, generation, members } = data;
  const stored = target === "Empty" ? { assigned: [], assigned_generation: generation, leader: "" } : {};
  changeGroup(state, node, name, data, () => ({ state: target, generation, members, ...stored }));
}

/** Adds a `GroupAssigned`. */
export function groupAssigned(state, node, data, [, name]) {
  const { generation, leader, members: assigned } = data;
  changeGroup(state, node, name, data, () => ({ generation, assigned_generation: generation, leader, assigned }));
}

/** Adds an `OffsetsCommitted` or, if the offsets are removed, an `OffsetsRemoved`. */
export function groupOffsets(state, node, data, [, name], isRemoved) {
  changeGroup(state, node, name, data, (group) => {
    const offsets = group.offsets.writableBy(state.owner);
    for (const [topic, partition, offset] of data.offsets) {
      if (isRemoved) offsets.remove(topic, String(partition));
      else offsets.put(topic, String(partition), offset);
    }
    return { offsets };
  });
}

/** Adds a `GroupsLoaded`: the broker coordinates the groups that the partition has. */
export function groupsLoaded(state, node, data, [, name]) {
  const { partition, leader_epoch } = data;
  writable(state, node, "coordinates").set(String(partition), leader_epoch);
  for (const [id, group] of stored(state, partition)) {
    if (less(leader_epoch, group.leader_epoch)) continue;
    const groups = writable(state, state, "groups");
    if (data.groups === 0) {
      groups.delete(id);
    } else {
      const members = group.assigned.length;
      groups.set(id, {
        ...group, coordinator: name, leader_epoch, state: members > 0 ? "Stable" : "Empty", members,
        generation: group.assigned_generation,
      });
    }
  }
}

/** Adds a `GroupsUnloaded`: the broker has forgotten the groups of the partition. */
export function groupsUnloaded(state, node, data, [, name]) {
  const { partition } = data;
  if (node.coordinates.has(String(partition))) writable(state, node, "coordinates").delete(String(partition));
  for (const [id, group] of stored(state, partition)) {
    if (group.coordinator === name) writable(state, state, "groups").set(id, { ...group, coordinator: "" });
  }
}

function stored(state, partition) {
  return [...state.groups].filter(([, group]) => group.partition === partition);
}
