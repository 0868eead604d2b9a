/** Which records of the run are missing, what that puts in doubt, and how well its clocks are aligned. */

/** The nodes whose logs have the faults of a run. */
export const TESTBEDS = ["testbed", "simulator"];
const NOT_ENDED = "not ended";
/** The mark of a figure whose evidence may be in records that are missing. */
export const IN_DOUBT = " ?";

/**
 * The verdict of `run.json`. It is null while a run is live, and then nothing is in doubt.
 *
 * Attributes:
 *   rows: the stretches in which records of a node are missing, by time: `node`, `incarnation`, `from_us`, `until_us`,
 *     `kind`, `evidence`, and `witness`, the record that is the evidence.
 *   clocks: the clocks of the run; the first one is the reference.
 *   version: changes with the verdict.
 */
export class Completeness {
  constructor(run = {}) {
    this.version = 0;
    this.set(run);
  }

  /** Take the verdict of a run, an object of `run.json`. */
  set({ missing = null, clocks = [] }) {
    this.rows = missing ?? [];
    this.clocks = clocks;
    this._clockOf = new Map();
    clocks.forEach(({ incarnations }, number) => {
      incarnations.forEach(([node, incarnation]) => this._clockOf.set(`${incarnation} ${node}`, number));
    });
    this.version += 1;
  }

  /** Whether the run has only not ended, by what its logs say. */
  get isOnlyOpen() {
    return this.rows.every(({ kind }) => kind === NOT_ENDED);
  }

  /** The stretches in which records of a node are missing. */
  of(node) {
    return this.rows.filter((row) => row.node === node);
  }

  /** The stretches that a moment is in. */
  at(us) {
    return this.rows.filter((row) => row.from_us <= us && us <= row.until_us);
  }

  /** The stretch of a node that a moment is in; undefined if there is none. */
  ofAt(node, us) {
    return this.at(us).find((row) => row.node === node);
  }

  /**
   * Whether a number that is counted from the state of the whole cluster may be wrong at a moment: faults are missing
   * at this moment, or records before it, and no controller was elected since then, which reads everything from
   * ZooKeeper.
   * @param {number} us
   * @param {Array<{us: number, ready: ?number}>} reigns
   */
  isInDoubt(us, reigns) {
    const isRead = (until) => reigns.some((reign) => (
      reign.us >= until && reign.ready !== null && reign.ready <= us
    ));
    return this.rows.some(({ node, from_us: from, until_us: until }) => (
      from <= us && (TESTBEDS.includes(node) ? us <= until : !isRead(until))
    ));
  }

  /**
   * By how much the time between two records may be wrong, in microseconds: 0 where they have one clock, null if it
   * is not known.
   * @param {[string, number]} one node and incarnation
   * @param {[string, number]} other
   * @param {number} us about when
   */
  within([node, incarnation], [otherNode, otherIncarnation], us) {
    const numbers = new Set([this._number(node, incarnation), this._number(otherNode, otherIncarnation)]);
    if (numbers.size === 1) {
      return 0;
    }
    let sum = 0;
    for (const number of numbers) {
      if (number > 0) {
        const within = withinOf(this.clocks[number].points, us);
        if (within === null) {
          return null;
        }
        sum += within;
      }
    }
    return sum;
  }

  _number(node, incarnation) {
    return this._clockOf.get(`${incarnation} ${node}`) ?? 0;
  }
}

/** The uncertainty of a clock at a time, interpolated between its points; null if it has none. */
function withinOf(points, us) {
  if (points.length === 0) {
    return null;
  }
  const after = points.findIndex(([at]) => at > us);
  if (after <= 0) {
    return after === 0 ? points[0][1] : points.at(-1)[1];
  }
  const [[from, before], [to, next]] = [points[after - 1], points[after]];
  return Math.round(before + (next - before) * (us - from) / (to - from));
}

/** The node, incarnation and sequence number of a record such as "broker-1/3#42"; null if it is none. */
export function placeOf(witness) {
  const found = /^(.+)\/(\d{1,15})#(\d{1,15})$/.exec(witness);
  return found === null ? null : [found[1], Number(found[2]), Number(found[3])];
}
