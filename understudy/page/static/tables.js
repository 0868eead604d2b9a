/**
 * Maps whose copies are cheap: a copy shares everything with the original until one of the two is written to.
 *
 * Each container has an owner, which is any object. A writer names its owner: a container that belongs to another
 * owner is copied first, and only that container. A state becomes two by giving the second one a new owner, and
 * the first one too (`snapshot` in `#fold`).
 *
 * Keys are texts, those of partitions and brokers too, and may be any text, for example `__proto__`: nothing here is a
 * property of an object. Views only read, with `entries` and `get` of `#fold`.
 */

const BUCKET = 64;

/** A map from texts to values, in the order of insertion. */
export class Table {
  #owner;
  #map;

  /**
   * Makes a table that `owner` may write to.
   * @param {object} owner
   * @param {Iterable<[string, unknown]>} entries
   */
  constructor(owner, entries = []) {
    this.#owner = owner;
    this.#map = new Map(entries);
  }

  get size() {
    return this.#map.size;
  }

  get(key) {
    return this.#map.get(key);
  }

  has(key) {
    return this.#map.has(key);
  }

  keys() {
    return this.#map.keys();
  }

  values() {
    return this.#map.values();
  }

  entries() {
    return this.#map.entries();
  }

  [Symbol.iterator]() {
    return this.#map.entries();
  }

  /** Returns this table if `owner` may write to it, else a copy that it may write to. */
  writableBy(owner) {
    return owner === this.#owner ? this : new this.constructor(owner, this.#map);
  }

  /** Sets a value. Only for the owner. */
  set(key, value) {
    this.#map.set(key, value);
  }

  /** Removes a key and returns whether it was there. Only for the owner. */
  delete(key) {
    return this.#map.delete(key);
  }
}

/** A table that is read as a list of its values. */
export class Queue extends Table {
  get length() {
    return this.size;
  }

  [Symbol.iterator]() {
    return this.values();
  }
}

/** The partitions of one topic: a map from partition numbers, as texts, to values, copied in pieces of 64. */
export class PartitionTable {
  #owner;
  #buckets;
  #size;

  /** Makes an empty table that `owner` may write to. */
  constructor(owner) {
    this.#owner = owner;
    this.#buckets = new Map();
    this.#size = 0;
  }

  get size() {
    return this.#size;
  }

  get(partition) {
    return this.#buckets.get(bucketOf(partition))?.get(partition);
  }

  has(partition) {
    return this.#buckets.get(bucketOf(partition))?.has(partition) ?? false;
  }

  * keys() {
    for (const bucket of this.#buckets.values()) yield* bucket.keys();
  }

  * values() {
    for (const bucket of this.#buckets.values()) yield* bucket.values();
  }

  * entries() {
    for (const bucket of this.#buckets.values()) yield* bucket.entries();
  }

  [Symbol.iterator]() {
    return this.entries();
  }

  /** Returns this table if `owner` may write to it, else a copy that it may write to. */
  writableBy(owner) {
    if (owner === this.#owner) return this;
    const copy = new PartitionTable(owner);
    copy.#buckets = new Map(this.#buckets);
    copy.#size = this.#size;
    return copy;
  }

  /** Sets a value. Only for the owner. */
  set(partition, value) {
    const bucket = this.#bucket(bucketOf(partition));
    this.#size -= bucket.size;
    bucket.set(partition, value);
    this.#size += bucket.size;
  }

  /** Removes a partition. Only for the owner. */
  delete(partition) {
    if (!this.has(partition)) return;
    const number = bucketOf(partition);
    const bucket = this.#bucket(number);
    bucket.delete(partition);
    this.#size -= 1;
    if (bucket.size === 0) this.#buckets.delete(number);
  }

  #bucket(number) {
    const known = this.#buckets.get(number);
    const bucket = known === undefined ? new Table(this.#owner) : known.writableBy(this.#owner);
    if (bucket !== known) this.#buckets.set(number, bucket);
    return bucket;
  }
}

/** Values by topic and partition: a map from topics to the `PartitionTable` of each. */
export class TopicTable {
  #owner;
  #topics;
  #partitions;

  /** Makes an empty table that `owner` may write to. */
  constructor(owner) {
    this.#owner = owner;
    this.#topics = new Map();
    this.#partitions = 0;
  }

  /** The number of topics. */
  get size() {
    return this.#topics.size;
  }

  /** The number of partitions of all topics. */
  get partitionCount() {
    return this.#partitions;
  }

  get(topic) {
    return this.#topics.get(topic);
  }

  has(topic) {
    return this.#topics.has(topic);
  }

  keys() {
    return this.#topics.keys();
  }

  entries() {
    return this.#topics.entries();
  }

  [Symbol.iterator]() {
    return this.#topics.entries();
  }

  /** Returns the value of a partition; undefined where there is none. */
  at(topic, partition) {
    return this.#topics.get(topic)?.get(partition);
  }

  /** Returns this table if `owner` may write to it, else a copy that it may write to. */
  writableBy(owner) {
    if (owner === this.#owner) return this;
    const copy = new TopicTable(owner);
    copy.#topics = new Map(this.#topics);
    copy.#partitions = this.#partitions;
    return copy;
  }

  /** Sets the value of a partition. Only for the owner. */
  put(topic, partition, value) {
    const partitions = this.#writable(topic);
    this.#partitions -= partitions.size;
    partitions.set(partition, value);
    this.#partitions += partitions.size;
  }

  /** Removes a partition, and its topic with the last one. Only for the owner. */
  remove(topic, partition) {
    if (this.at(topic, partition) === undefined) return;
    const partitions = this.#writable(topic);
    partitions.delete(partition);
    this.#partitions -= 1;
    if (partitions.size === 0) this.#topics.delete(topic);
  }

  /** Removes a topic. Only for the owner. */
  delete(topic) {
    this.#partitions -= this.#topics.get(topic)?.size ?? 0;
    this.#topics.delete(topic);
  }

  #writable(topic) {
    const known = this.#topics.get(topic);
    const partitions = known === undefined ? new PartitionTable(this.#owner) : known.writableBy(this.#owner);
    if (partitions !== known) this.#topics.set(topic, partitions);
    return partitions;
  }
}

/** Returns the bucket of a partition. A number that is none, or too large for a partition, is a hostile record's. */
function bucketOf(partition) {
  return partition.length < 10 ? Math.floor(Number(partition) / BUCKET) : -1;
}
