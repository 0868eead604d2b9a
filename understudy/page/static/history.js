/**
 * The records of a run, and the state after any number of them.
 *
 * Memory grows with the text of the records: kept are their JSON, one time and one type of each, and a snapshot at the
 * beginning of each chunk, more where records have many partitions. A chunk is parsed again when something in it is
 * asked for; the last few parsed ones are kept.
 */

import { emptyState, fold, snapshot } from "#fold";

const PARSED_CHUNKS = 4;

/** The records of a run in their order, from 0, and the states between them. */
export class History {
  #chunkSize;
  #chunks = [];
  #marks = [];
  #weight = 0;
  #observe;
  #live;
  #cursor = null;
  #parsed = new Map();
  #times = new Column(Float64Array);
  #latest = new Column(Float64Array);
  #types = new Column(Uint16Array);
  #codes = new Map();
  #names = [];

  /**
   * Makes an empty history.
   * @param {{chunkSize?: number, run?: string, observe?: (record: Array, n: number) => void}} options `chunkSize`: how
   *   many records lie between two snapshots; `run`: the id of the run, which the records themselves do not contain;
   *   `observe`: is called with each record that is appended, and its number
   */
  constructor({ chunkSize = 5000, run = "", observe = () => {} } = {}) {
    this.#chunkSize = chunkSize;
    this.#observe = observe;
    this.#live = emptyState(run);
  }

  /** The number of records so far. */
  get length() {
    return this.#times.length;
  }

  /**
   * Appends records.
   * @param {string} text a JSON array of records
   * @returns {number} how many there were
   */
  append(text) {
    const records = JSON.parse(text);
    for (let from = 0; from < records.length;) {
      const chunk = this.#lastChunk();
      const part = records.slice(from, from + this.#chunkSize - chunk.size);
      this.#add(chunk, part, part.length === records.length ? text : JSON.stringify(part));
      from += part.length;
    }
    return records.length;
  }

  /** Returns the clock of record `n`, in microseconds; NaN where there is none. */
  timeAt(n) {
    return this.#times.get(n);
  }

  /** Returns the name of the type of record `n`; undefined where there is none. */
  typeAt(n) {
    return this.#names[this.#types.get(n)];
  }

  /**
   * Returns the number of records at or before a time. Of records whose clock goes back, those count that come before
   * the first later one.
   * @param {number} us microseconds
   */
  indexAt(us) {
    let low = 0;
    let high = this.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#latest.get(middle) <= us) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Returns record `n` as an array; undefined where there is none. */
  recordAt(n) {
    if (!(n >= 0 && n < this.length)) return undefined;
    const number = lastUntil(this.#chunks, n);
    return this.#records(number)[n - this.#chunks[number].first];
  }

  /**
   * Returns the state after the first `n` records.
   *
   * It is a snapshot: it never changes, whatever is asked for or appended later, so a view may keep it. Views only read
   * it. A step forward from the last state asked for costs what lies between the two, any other one at most a chunk.
   * @param {number} n is brought into the range from 0 to `length`
   */
  stateAt(n) {
    const wanted = Math.min(Math.max(Math.trunc(n) || 0, 0), this.length);
    if (wanted === this.length) return snapshot(this.#live);
    const cursor = this.#cursorBefore(wanted);
    for (; cursor.at < wanted; cursor.at += 1) fold(cursor.state, this.recordAt(cursor.at));
    return snapshot(cursor.state);
  }

  /** Returns the last position of the cursor or the closest snapshot before `wanted`, whichever is closer. */
  #cursorBefore(wanted) {
    const mark = this.#marks[lastUntil(this.#marks, wanted)];
    const known = this.#cursor;
    if (known === null || known.at > wanted || known.at < mark.first) {
      this.#cursor = { at: mark.first, state: snapshot(mark.state) };
    }
    return this.#cursor;
  }

  /** Keeps the present state; later states are computed from it. */
  #mark() {
    this.#marks.push({ first: this.length, state: snapshot(this.#live) });
    this.#weight = 0;
  }

  #lastChunk() {
    const last = this.#chunks.at(-1);
    if (last !== undefined && last.size < this.#chunkSize) return last;
    const chunk = { first: this.length, size: 0, texts: [] };
    this.#chunks.push(chunk);
    this.#mark();
    return chunk;
  }

  #add(chunk, records, text) {
    const number = this.#chunks.length - 1;
    const parsed = this.#parsed.get(number);
    if (parsed !== undefined) parsed.push(...records);
    else if (chunk.size === 0) this.#keep(number, records);
    chunk.texts.push(text);
    chunk.size += records.length;
    for (const record of records) {
      fold(this.#live, record);
      const us = Number(record[0]);
      this.#latest.push(this.length === 0 ? us : Math.max(us, this.#latest.get(this.length - 1)));
      this.#types.push(this.#code(record[4]));
      this.#times.push(us);
      this.#observe(record, this.length - 1);
      this.#weight += weightOf(record);
      if (this.#weight >= this.#chunkSize / 2) this.#mark();
    }
  }

  #code(type) {
    const known = this.#codes.get(type);
    if (known !== undefined) return known;
    this.#codes.set(type, this.#names.length);
    return this.#names.push(type) - 1;
  }

  #records(number) {
    const known = this.#parsed.get(number);
    if (known !== undefined) {
      this.#keep(number, known);
      return known;
    }
    const records = this.#chunks[number].texts.flatMap((text) => JSON.parse(text));
    this.#keep(number, records);
    return records;
  }

  /** Notes parsed records as those used last, and forgets those used longest ago. */
  #keep(number, records) {
    this.#parsed.delete(number);
    this.#parsed.set(number, records);
    if (this.#parsed.size > PARSED_CHUNKS) this.#parsed.delete(this.#parsed.keys().next().value);
  }
}

/** Returns the number of the last element whose `first` is at most `n`. */
function lastUntil(elements, n) {
  let low = 0;
  let high = elements.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (elements[middle].first <= n) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** Returns about how much work it is to fold a record: most depends on how many partitions it has. */
function weightOf(record) {
  const { partitions, leaders, followers, replicas } = record[8];
  return 1 + (partitions?.length ?? 0) + (leaders?.length ?? 0) + (followers?.length ?? 0) + (replicas?.length ?? 0);
}

/** Numbers in a typed array that doubles its size when it is full. */
class Column {
  #numbers;
  length = 0;

  constructor(ArrayType) {
    this.#numbers = new ArrayType(1024);
  }

  get(n) {
    return n >= 0 && n < this.length ? this.#numbers[n] : NaN;
  }

  push(number) {
    if (this.length === this.#numbers.length) {
      const larger = new this.#numbers.constructor(2 * this.length);
      larger.set(this.#numbers);
      this.#numbers = larger;
    }
    this.#numbers[this.length] = number;
    this.length += 1;
  }
}
