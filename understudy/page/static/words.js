/**
 * Texts that several views show: times, names, counts.
 *
 * Moments and durations have the same text as in `understudy/foundation/times.py`: `tests/foundation/times.tsv` has the
 * cases of both. Times are microseconds here.
 */

const MINUS = "−";

/** Name of each unit, its microseconds, and the number of it from which the next one is used. */
const UNITS = [["µs", 1, 1000], ["ms", 1000, 1000], ["s", 1e6, 1000], ["min", 6e7, 60], ["h", 3.6e9, Infinity]];

/** A moment as the time since the first record: "12.346 s". */
export function clock(us) {
  const whole = Math.floor((Math.abs(Math.round(us)) + 500) / 1000);
  const rest = String(whole % 1000).padStart(3, "0");
  return `${us < 0 && whole > 0 ? MINUS : ""}${thousands(Math.floor(whole / 1000))}.${rest} s`;
}

/**
 * A duration with three digits: "3.15 s", "24.2 ms", "640 µs". Zeros at its end show that it was rounded: exactly three
 * seconds are "3 s".
 */
export function duration(us) {
  const size = Math.abs(Math.round(us));
  if (size === 0) {
    return "0 ms";
  }
  for (const [unit, usOfUnit, limit] of UNITS) {
    const [number, power] = rounded(size, usOfUnit);
    if (number < limit * power) {
      return `${us < 0 ? MINUS : ""}${decimal(number, power, number * usOfUnit === size * power)} ${unit}`;
    }
  }
}

/**
 * A duration that may be wrong by `within` microseconds, which is null if it is not known: "3.4 ms ± 120 µs". A shorter
 * one than that is only bounded: "< 180 µs".
 */
export function uncertain(us, within) {
  if (within === 0) {
    return duration(us);
  }
  if (within === null) {
    return `${duration(us)} ± ?`;
  }
  return Math.abs(us) < within ? `< ${duration(Math.abs(us) + within)}` : `${duration(us)} ± ${duration(within)}`;
}

/** A duration before or after something: "2.4 ms ago", "2.4 ms before"; "at the same moment" if it is none. */
export function relative(us, word) {
  return Math.round(us) === 0 ? "at the same moment" : `${duration(us)} ${word}`;
}

/** A number with three digits, or with all its whole ones, as in a duration: "12.3", "6,013". */
export function digits(value) {
  const size = Math.abs(value);
  const [number, power] = rounded(size, 1);
  return `${value < 0 && number > 0 ? MINUS : ""}${decimal(number, power, number === size * power)}`;
}

/** A number with as many decimals as the others of its column: "1,204.500". */
export function fixed(value, decimals) {
  const number = Math.floor(Math.abs(value) * 10 ** decimals + 0.5);
  return `${value < 0 && number > 0 ? MINUS : ""}${decimal(number, 10 ** decimals, false)}`;
}

/** A size in some unit times a power of ten, rounded to three digits, and the power. */
function rounded(size, unit) {
  for (const power of [1000, 100, 10]) {
    const number = Math.floor((2 * size * power + unit) / (2 * unit));
    if (number < 1000) {
      return [number, power];
    }
  }
  return [Math.floor((2 * size + unit) / (2 * unit)), 1];
}

/** `number` divided by a power of ten; without zeros at its end if it is exact. */
function decimal(number, power, isExact) {
  const rest = power === 1 ? "" : `.${String(number % power).padStart(String(power).length - 1, "0")}`;
  return thousands(Math.floor(number / power)) + (isExact ? rest.replace(/\.?0+$/, "") : rest);
}

function thousands(number) {
  return number.toLocaleString("en");
}

/** A count with its noun: "1 partition", "1,204 partitions". */
export function count(number, noun) {
  return `${thousands(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/** A node's name for people: "broker-2" becomes "broker 2". */
export function nodeName(node) {
  return node.replace(/^(broker|controller)-/, "$1 ");
}

/** The node of a stretch in which records are missing. */
export function whose({ node }) {
  return node === "" ? "a controller" : nodeName(node);
}

/** The fields of a payload in one line, for a record without a sentence of its own. */
export function fields(data) {
  return Object.entries(data)
    .filter(([, value]) => value !== null && value !== "" && !(Array.isArray(value) && value.length === 0))
    .map(([name, value]) => `${name} ${short(value)}`)
    .join(", ");
}

function short(value) {
  const text = typeof value === "object" ? JSON.stringify(value) : String(value);
  return text.length > 60 ? `${text.slice(0, 57)}…` : text;
}

const EPOCH_COLOURS = 6;

/** The class that colours what belongs to a controller epoch; the same epoch has the same colour everywhere. */
export function epochClass(epoch) {
  return epoch > 0 ? `epoch-${epoch % EPOCH_COLOURS}` : "epoch-none";
}
