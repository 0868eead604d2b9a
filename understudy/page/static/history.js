/**
 * The records of a run, and the state after any number of them.
 *
 * Memory grows with the text of the records: kept are their JSON, one time and one type of each, and a snapshot at
 * about every 2,500 records, more where records have many partitions. Records are parsed again when they are asked for,
 * and no others with them; the last ones that were asked for singly are kept.
 */

import { emptyState, fold, snapshot } from "#fold";

const PARSED_RECORDS = 2000;
const BETWEEN = ",\n";

/** The records of a run in their order, from 0, and the states between them. */
export class History {
  #snapshotEvery;
  #texts = [];
  #marks = [];
  #weight = Infinity;
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
   * @param {{snapshotEvery?: number, run?: string, observe?: (record: Array, n: number) => void}} options
   *   `snapshotEvery`: how many records lie at most between two snapshots; `run`: the id of the run, which the records
   *   themselves do not contain; `observe`: is called with each record that is appended, and its number
   */
  constructor({ snapshotEvery = 2500, run = "", observe = () => {} } = {}) {
    this.#snapshotEvery = snapshotEvery;
    this.#observe = observe;
    this.#live = emptyState(run);
    this.#mark();
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
    if (records.length > 0) {
      this.#texts.push({ first: this.length, size: records.length, text, starts: null });
    }
    for (const record of records) {
      this.#add(record);
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
    const known = this.#parsed.get(n);
    if (known !== undefined) return known;
    const [record] = this.#recordsOf(n, n + 1);
    this.#parsed.set(n, record);
    if (this.#parsed.size > PARSED_RECORDS) this.#parsed.delete(this.#parsed.keys().next().value);
    return record;
  }

  /**
   * Returns the state after the first `n` records.
   *
   * It is a snapshot: it never changes, whatever is asked for or appended later, so a view may keep it. Views only read
   * it. A step forward from the last state asked for costs what lies between the two, any other one at most what lies
   * between two snapshots.
   * @param {number} n is brought into the range from 0 to `length`
   */
  stateAt(n) {
    const wanted = Math.min(Math.max(Math.trunc(n) || 0, 0), this.length);
    if (wanted === this.length) return snapshot(this.#live);
    const cursor = this.#cursorBefore(wanted);
    for (const record of this.#recordsOf(cursor.at, wanted)) fold(cursor.state, record);
    cursor.at = wanted;
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

  #add(record) {
    if (this.#weight >= this.#snapshotEvery) this.#mark();
    fold(this.#live, record);
    const us = Number(record[0]);
    this.#latest.push(this.length === 0 ? us : Math.max(us, this.#latest.get(this.length - 1)));
    this.#types.push(this.#code(record[4]));
    this.#times.push(us);
    this.#observe(record, this.length - 1);
    this.#weight += weightOf(record);
  }

  #code(type) {
    const known = this.#codes.get(type);
    if (known !== undefined) return known;
    this.#codes.set(type, this.#names.length);
    return this.#names.push(type) - 1;
  }

  /** Parses the records from `from` up to, and without, `to`. */
  #recordsOf(from, to) {
    const records = [];
    for (let number = lastUntil(this.#texts, from), at = from; at < to; number += 1) {
      const kept = this.#texts[number];
      const end = Math.min(to, kept.first + kept.size);
      records.push(...JSON.parse(`[${linesOf(kept, at - kept.first, end - kept.first)}]`));
      at = end;
    }
    return records;
  }
}

/** Returns the JSON of some records of a text, with what is between them. */
function linesOf(kept, from, to) {
  kept.starts ??= startsOf(kept) ?? startsOf(inLines(kept));
  return kept.text.slice(kept.starts[from], kept.starts[to] - BETWEEN.length);
}

/** Returns where each record begins, and where one after the last would; null where they are not a line each. */
function startsOf({ text, size }) {
  const starts = new Uint32Array(size + 1);
  starts[0] = 1;
  for (let number = 1; number <= size; number += 1) {
    const end = text.indexOf(BETWEEN, starts[number - 1]);
    if ((end < 0) !== (number === size)) return null;
    starts[number] = (end < 0 ? text.length - "]".length : end) + BETWEEN.length;
  }
  return starts;
}

/** Writes the records of a text a line each. */
function inLines(kept) {
  kept.text = `[${JSON.parse(kept.text).map((record) => JSON.stringify(record)).join(BETWEEN)}]`;
  return kept;
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
