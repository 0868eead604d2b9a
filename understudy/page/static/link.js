/** The moment in the address: a link carries the record that is shown, and what is chosen. */

import { INCARNATION, NODE, SEQ } from "#catalogue";

/**
 * Read the fragment of an address.
 * @param {string} hash for example "#at=broker-2.1.57&speed=0.1"
 * @returns {{token: string, at: null|[string, number, number], us: number|null, partition: null|[string, string],
 *   show: string[]}} `show` has the names of the parts that are marked
 */
export function readLink(hash) {
  const values = new URLSearchParams(hash.replace(/^#/, ""));
  const at = /^(.*)\.(\d{1,15})\.(\d{1,15})$/.exec(values.get("at") ?? "");
  const partition = /^(.*)\/(\d{1,9})$/.exec(values.get("partition") ?? "");
  const us = Number(values.get("us") ?? NaN);
  return {
    token: values.get("token") ?? "",
    at: at === null ? null : [at[1], Number(at[2]), Number(at[3])],
    us: Number.isFinite(us) ? us : null,
    partition: partition === null ? null : [partition[1], partition[2]],
    show: values.getAll("show"),
  };
}

/**
 * The fragment for a record, null for the beginning of the run, for the partition that is chosen, and for the parts
 * that are marked.
 */
export function linkTo(record, partition, show = []) {
  const values = new URLSearchParams();
  if (record !== null) {
    values.set("at", `${record[NODE]}.${record[INCARNATION]}.${record[SEQ]}`);
  }
  if (partition !== null) {
    values.set("partition", partition.join("/"));
  }
  show.forEach((name) => values.append("show", name));
  return `#${values}`;
}
