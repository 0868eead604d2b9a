/** Texts that several views show: times, names, counts. */

/** A time in microseconds as text: "12.345 s", "3.4 ms". */
export function duration(us) {
  const ms = us / 1000;
  if (Math.abs(ms) < 1) {
    return `${Math.round(us)} µs`;
  }
  if (Math.abs(ms) < 1000) {
    return `${ms.toFixed(ms < 10 ? 1 : 0)} ms`;
  }
  return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
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

/** A time in microseconds as seconds, to be read aloud: "12.4 s". */
export function seconds(us) {
  return `${Number((us / 1e6).toFixed(1))} s`;
}

/** A moment as time since the first record: "0:12.345678". */
export function clock(us) {
  const sign = us < 0 ? "−" : "";
  const whole = Math.floor(Math.abs(us) / 1e6);
  const rest = String(Math.abs(us) % 1e6).padStart(6, "0");
  return `${sign}${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}.${rest}`;
}

/** A count with its noun: "1 partition", "1,204 partitions". */
export function count(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

/** A node's name for people: "broker-2" becomes "broker 2". */
export function nodeName(node) {
  return node.replace(/^broker-/, "broker ");
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
