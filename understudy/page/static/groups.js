/** The consumer groups that a broker coordinates: state, generation, members with what they own, committed offsets. */

import { explain, h, keyed, setAttribute, setPhrase } from "#dom";
import { count, nodeName } from "#words";

const MOST_GROUPS = 3;
const MOST_MEMBERS = 6;

/** Draws groups into the columns of `ClusterView`. */
export class GroupsView {
  /** Draw the groups at a moment; `chosen` is the partition whose committed offsets are shown, or null. */
  draw(state, chosen, cluster) {
    const byNode = new Map();
    for (const [id, group] of state.groups) {
      const node = state.nodes.get(group.coordinator);
      if (node?.coordinates.has(String(group.partition))) {
        byNode.set(group.coordinator, [...(byNode.get(group.coordinator) ?? []), [id, group]]);
      }
    }
    for (const [name, column] of cluster.columns) {
      const groups = byNode.get(name) ?? [];
      const shown = groups.slice(0, MOST_GROUPS);
      const more = groups.length > MOST_GROUPS ? [""] : [];
      const keys = [...shown.map(([id]) => `g${id}`), ...more];
      const cells = keyed(column.querySelector(".groups"), keys, (key) => (key === "" ? h("p.faint") : newGroup()));
      for (const [id, group] of shown) {
        drawGroup(cells.get(`g${id}`), name, id, group, chosen, cluster.isReachable);
      }
      if (more.length > 0) {
        setPhrase(cells.get(""), `and ${count(groups.length - MOST_GROUPS, "more group")}`);
      }
    }
  }

  /** The committed offsets of a partition, as [{group, offset}]; of groups that no broker coordinates as well. */
  committed(state, chosen) {
    if (chosen === null) {
      return [];
    }
    return [...state.groups].map(([group, { offsets }]) => ({ group, offset: offsets.at(...chosen) }))
      .filter(({ offset }) => Number.isInteger(offset));
  }
}

function newGroup() {
  return h("div.group", {}, h("p.group-id"), h("p.group-state"), h("ul.members"));
}

function drawGroup(element, name, id, group, chosen, isReachable) {
  const [title, state, list] = element.children;
  const committed = chosen === null ? undefined : group.offsets.at(...chosen);
  setAttribute(element, "data-part", `group:${name}:${id}`);
  setAttribute(element, "data-state", group.state);
  setPhrase(title, `«group »${id}`);
  const members = count(group.members, "member");
  setPhrase(state, `${words(group.state)}«,» gen«eration»\u00a0${group.generation}«, ${members}»`);
  explain(element, `group ${id}, coordinated by ${nodeName(name)}: ${group.state}, generation ${group.generation}, `
    + `${members}${committed === undefined ? "" : `; committed offset of ${chosen.join("-")}: ${committed}`}`,
    isReachable);
  const shown = group.assigned.slice(0, MOST_MEMBERS);
  const items = keyed(list, shown.map(([member]) => member), () => h("li.member"));
  for (const [member, , client, partitions] of shown) {
    drawMember(items.get(member), id, { member, client, partitions, isLeader: member === group.leader });
  }
}

function drawMember(item, group, { member, client, partitions, isLeader }) {
  const owned = partitions.map((each) => each.join("-"));
  setAttribute(item, "data-part", `member:${group}:${client}`);
  setPhrase(item, `${client}${isLeader ? "«★»" : ""}«: ${owned.join(", ") || "nothing"}»`);
  const what = owned.length === 0 ? "is assigned nothing" : `is assigned ${owned.join(", ")}`;
  setAttribute(item, "title", `member ${member} of group ${group}${isLeader ? ", its leader," : ""} ${what}`);
}

/** Kafka's name of a group's state, which a narrow column may break. */
function words(state) {
  return state.replace(/([a-z])([A-Z])/g, "$1 $2");
}
