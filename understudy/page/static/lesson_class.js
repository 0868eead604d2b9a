/**
 * The class that takes part in a lesson: takes its phones along from step to step, counts who has answered, and shows
 * the votes when the teacher reveals them. The class itself is at the server, which the phones reach at another port.
 */

import { byId, h, marked, s, setAttribute, setText } from "#dom";
import { digits } from "#words";

const LOOK_EVERY_MS = 500;
const WIDTH = 320;
const DOT = 4;
const COLUMNS = WIDTH / (2 * DOT) - 2;

/**
 * Opens the class of this page.
 * @param {LessonSource} source
 * @returns {Promise<null|LessonClass>} null if the lesson has no class, or this page does not lead it
 */
export async function openClass(source) {
  const found = source.canCommand ? await source.read("/class.json") : null;
  return found === null ? null : new LessonClass(source, found);
}

class LessonClass {
  #source;
  #document;
  #step = null;
  #sent = "";
  #isSending = false;
  #drawn = "";
  #parts = partsOf(() => this.#reveal());

  constructor(source, found) {
    this.#source = source;
    this.#document = found;
    setAttribute(this.#parts.picture, "src", "/class.svg");
    setAttribute(this.#parts.large, "src", "/class.svg");
    for (const place of this.#parts.places) {
      place.replaceChildren(h("b", {}, found.address), h("br", {}), "code ", h("b", {}, found.code));
    }
    byId("lesson-step").after(this.#parts.section);
    document.body.append(this.#parts.dialog);
    setTimeout(() => this.#look(), LOOK_EVERY_MS);
  }

  /** The place of the step at which the class is, from 0. */
  get place() {
    return Math.max(0, this.#document.step - 1);
  }

  /**
   * Takes the class to a step.
   * @param {{step: number, of: number, kind: string, headline: string, question: ?Object, right: ?Object}} step
   */
  show(step) {
    this.#step = step;
    this.#draw();
    this.#send();
  }

  /** Sends the newest step, one request at a time. */
  async #send() {
    const text = JSON.stringify(this.#step);
    if (this.#isSending || text === this.#sent) {
      return;
    }
    this.#isSending = true;
    const sent = await this.#asked(() => this.#source.post("/class/step", this.#step));
    this.#isSending = false;
    if (sent) {
      this.#sent = text;
      this.#send();
    }
  }

  async #reveal() {
    await this.#asked(() => this.#source.post("/class/reveal", { question: this.#step.question.name }));
    await this.#asked(() => this.#read());
  }

  async #look() {
    if (await this.#asked(() => this.#read())) {
      this.#send();
    }
    setTimeout(() => this.#look(), LOOK_EVERY_MS);
  }

  async #read() {
    this.#document = await this.#source.read("/class.json");
    this.#draw();
  }

  async #asked(request) {
    try {
      await request();
      setText(this.#parts.trouble, "");
      return true;
    } catch (error) {
      setText(this.#parts.trouble, `The class is out of reach: ${error.message}`);
      return false;
    }
  }

  #draw() {
    const { phones, polls } = this.#document;
    const question = this.#step?.question ?? null;
    const poll = question === null ? null : polls[question.name] ?? { answered: 0, tally: null };
    const parts = this.#parts;
    setText(parts.phones, phones === 1 ? "1 phone" : `${phones} phones`);
    setAttribute(parts.joining, "hidden", this.#step?.kind !== "question");
    setAttribute(parts.poll, "hidden", poll === null);
    if (poll !== null) {
      setText(parts.answered, `${poll.answered} of ${phones} have answered`);
      setAttribute(parts.asking, "hidden", poll.tally !== null);
      const text = JSON.stringify([question, poll.tally]);
      if (text !== this.#drawn) {
        this.#drawn = text;
        parts.votes.replaceChildren(...votesOf(question, poll.tally));
        setText(parts.said, poll.tally === null ? "" : inWords(question, poll.tally));
      }
    }
  }
}

/** The elements of the class in the text of the lesson, and the dialog with its large QR code. */
function partsOf(onReveal) {
  const picture = h("img.qr", { alt: "QR code of the class" });
  const large = h("img.qr", { alt: "QR code of the class" });
  const places = [h("p.class-place", {}), h("p.class-place", {})];
  const dialog = h("dialog", { id: "class-code", "aria-label": "Join the class" }, large, places[1],
    h("p", {}, h("button", { type: "button", onclick: () => dialog.close() }, "Close")));
  const joining = h("div.class-joining", {}, picture, places[0]);
  const votes = h("div", {});
  const answered = h("span", { id: "class-answered" });
  const reveal = h("button", { type: "button", id: "class-reveal", onclick: onReveal }, "Reveal");
  const asking = h("p.class-row", {}, answered, reveal);
  const said = h("p", { id: "class-said", role: "status" });
  const poll = h("div", { hidden: true }, votes, said, asking);
  const phones = h("span", { id: "class-phones" });
  const code = h("button", { type: "button", onclick: () => dialog.showModal() }, "QR code");
  const trouble = h("p.wrong", { role: "alert" });
  const section = h("section", { id: "class", "aria-label": "The class" }, poll, joining,
    h("p.class-row.faint", {}, h("span", {}, "The class: ", phones), code), trouble);
  return { section, dialog, picture, large, places, joining, poll, votes, asking, answered, said, phones, trouble };
}

function votesOf(question, tally) {
  if (question.choices.length > 0) {
    return [bars(question.choices, tally)];
  }
  return tally === null ? [] : [dots(question.unit, tally)];
}

/** The choices, with bars once the votes are revealed. */
function bars(choices, tally) {
  return h("ol.class-votes", {}, ...choices.map((text, number) => {
    const isRight = tally !== null && tally.right !== null && tally.right.value === number;
    const count = tally === null ? null : h("b", {}, String(tally.counts[number]));
    const bar = h("div.class-bar", {});
    bar.style.setProperty("--part", tally === null || tally.answered === 0 ? 0 : tally.counts[number] / tally.answered);
    const line = h("div.class-text", {}, h("span", {}, isRight ? "✓ " : "", ...marked(text)), count);
    return h(isRight ? "li.is-right" : "li", {}, line, bar);
  }));
}

/**
 * The numbers as a strip of dots on one axis, stacked if they are near each other. It spans the middle nine tenths and
 * the right answer, with some room: one wild number would press all others together. Those outside are at its ends.
 */
function dots(unit, { numbers, median, right }) {
  if (numbers.length === 0) {
    return h("p.faint", {}, "No answers.");
  }
  const at = (part) => numbers[Math.round(part * (numbers.length - 1))];
  const inner = [at(0.05), at(0.95), ...right === null ? [] : [right.value]];
  const room = (Math.max(...inner) - Math.min(...inner)) / 6 || Math.abs(median) / 10 || 1;
  const [from, to] = [Math.min(...inner) - room, Math.max(...inner) + room];
  const column = (number) => Math.round(COLUMNS * Math.max(0, Math.min((number - from) / (to - from), 1)));
  const x = (number) => 2 * DOT + 2 * DOT * column(number);
  const heights = new Map();
  const placed = numbers.map((number) => {
    const height = (heights.get(column(number)) ?? 0) + 1;
    heights.set(column(number), height);
    return [x(number), height];
  });
  const base = 2 * DOT * Math.max(6, ...heights.values()) + DOT;
  const line = (name, number) => s(`line.${name}`, { x1: x(number), x2: x(number), y1: 0, y2: base + DOT });
  const picture = s("svg", { viewBox: `0 0 ${WIDTH} ${base + 2 * DOT}`, "aria-hidden": true },
    s("line.axis", { x1: 0, x2: WIDTH, y1: base + DOT, y2: base + DOT }),
    ...placed.map(([cx, height]) => s("circle", { cx, cy: base - DOT - 2 * DOT * (height - 1), r: DOT - 0.5 })),
    line("median", median), ...right === null ? [] : [line("is-right", right.value)]);
  const [lower, higher] = [numbers.filter((each) => each < from).length, numbers.filter((each) => each > to).length];
  const ends = [[from, lower, "lower"], [to, higher, "higher"]].map(([end, count, word]) =>
    h("span", {}, `${digits(end)} ${unit}${count === 0 ? "" : ` (${count} ${word})`}`));
  return h("div.class-dots", {}, picture, h("div.class-text.faint", {}, ...ends));
}

function inWords({ choices, unit }, { answered, counts, median, right, are_right: areRight }) {
  if (answered === 0) {
    return "There are no answers.";
  }
  const said = answered === 1 ? "1 answer" : `${answered} answers`;
  const judged = areRight === null ? "" : `, ${areRight} of them right`;
  if (choices.length === 0) {
    const wanted = right === null ? "" : `; the right answer is ${digits(right.value)} ${unit}`;
    return `${said}${judged}. Median ${digits(median)} ${unit}${wanted}.`;
  }
  const most = Math.max(...counts);
  const chosen = counts.flatMap((count, number) => (count === most ? [number + 1] : []));
  return `${said}${judged}. Most, ${most}, for answer ${chosen.join(" and ")}.`;
}
