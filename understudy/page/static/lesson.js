/** A lesson: question, prediction, the stops of both runs on their pages, a question to check, what to read. */

import { byId, h, marked, setAttribute, setText } from "#dom";
import { openClass } from "#lesson_class";
import { openLesson } from "#lesson_source";

/** Asks the frame for the newest moment of its run. */
const EDGE = "edge";

const source = await openLesson();
/** The class that this page leads; null if there is none. */
const classroom = await openClass(source);
const answers = new Map();
const frames = [null, null];
let { lesson, phase } = source.document;
let steps = stepsOf();
let current = Math.min(classroom?.place ?? 0, steps.length - 1);
let drawn = "";

/**
 * The steps of the lesson. Each has what it is made of (`of`), how that is drawn, and how many of the runs it shows;
 * `kind` is its `data-kind`, `asks` the name of a question that must be answered before the next step, `judges` the
 * name of the one whose answer is shown, `at` the moment that it shows of the run `side`, and `isAwaited` whether that
 * has not happened yet.
 */
function stepsOf() {
  const { predict, check, sides: [one, other], question, intro, explain, read } = lesson;
  const isGoingOn = ["ready", "starting", "running"].includes(phase);
  return [
    { of: [question, intro], draw: () => [...paragraphs(question), ...paragraphs(intro)], sides: 0, kind: "question" },
    { ...asking("Predict", "predict", predict), sides: 0 },
    ...one.stops.map((stop) => stopStep(one, stop, 0, isGoingOn && stop.record === null)),
    { ...judging("You predicted", "predict", predict, one, isGoingOn), sides: 1, side: 0, at: isGoingOn ? EDGE : null },
    ...other.stops.map((stop) => stopStep(other, stop, 1, false)),
    { ...asking("Check", "check", check, tableOf(other)), sides: 2 },
    { ...judging("You answered", "check", check, null, isGoingOn), sides: 2 },
    { kind: "read", of: [explain], draw: () => reading(explain, read), sides: 2 },
    ...(phase === "over" ? [] : [{
      kind: "read", of: [lesson.exercise, phase], draw: ownHands, sides: 1, side: 0, at: EDGE,
    }]),
  ];
}

function stopStep(side, stop, number, isAwaited) {
  return {
    of: [stop, phase],
    draw: () => (isAwaited ? awaiting() : stopText(side, stop)),
    isAwaited,
    at: isAwaited ? EDGE : stop.record,
    side: number,
    sides: number + 1,
    kind: "moment",
    headline: stop.headline,
  };
}

function asking(title, name, question, before = []) {
  const { question: text, choices } = question;
  const draw = () => [...before, ...questionForm(title, name, question)];
  return { kind: name, of: [text, choices], draw, asks: name };
}

function judging(begin, name, question, side, isGoingOn) {
  const table = side === null ? [] : tableOf(side);
  return {
    judges: name,
    kind: "answer",
    of: [question, isGoingOn],
    draw: () => [...table, ...(isGoingOn ? unanswered() : verdict(begin, answers.get(name), question))],
  };
}

/** Takes another document of the lesson, and draws what has changed of the step that is shown. */
function update(found) {
  ({ lesson, phase } = found);
  steps = stepsOf();
  setText(byId("lesson-note"), found.note);
  draw();
}

/** The frame with the page of a run; null while that cluster has not started. */
function frameOf(number) {
  if (frames[number] === null && (number > 0 || !["ready", "starting"].includes(phase))) {
    const side = lesson.sides[number];
    const frame = h("iframe", { title: `the run: ${side.title}`, ...source.frameOf(side.side) });
    const caption = h("figcaption", {}, side.title, h("span.here", {}, "◂ this step"));
    const figure = h("figure", { hidden: true }, caption, frame);
    byId("frames").append(figure);
    frames[number] = { frame, figure, isReady: false, wanted: null, lasts: 0 };
  }
  return frames[number];
}

function show(frame, at) {
  if (at !== null && String(at) !== String(frame.wanted)) {
    frame.wanted = at;
    ask(frame);
  }
}

function ask({ frame, isReady, wanted }) {
  if (isReady && wanted !== null) {
    frame.contentWindow.postMessage({ at: wanted }, "*");
  }
}

function draw() {
  const step = steps[current];
  const text = JSON.stringify([current, step.of]);
  if (text !== drawn) {
    drawn = text;
    byId("lesson-step").replaceChildren(...step.draw());
  }
  lesson.sides.forEach((_, number) => drawFrame(step, number));
  shareScale();
  classroom?.show(forClass(step));
  setText(byId("progress"), `${current + 1} of ${steps.length}`);
  setAttribute(byId("back"), "disabled", current === 0);
  drawNext();
}

/** What the phones of a class show at a step. */
function forClass({ kind, headline = kind === "question" ? lesson.question : "", asks, judges }) {
  const name = asks ?? judges ?? null;
  const { question: text, choices, unit, right_choice: choice, right_number: number, within } = lesson[name] ?? {};
  const value = choice ?? number ?? null;
  return {
    step: current + 1,
    of: steps.length,
    kind,
    headline,
    question: name === null ? null : { name, text, choices, unit },
    right: judges === undefined || value === null
      ? null
      : { value, within: choices.length > 0 ? 0 : Math.abs(value) * within / 100 },
  };
}

function drawFrame(step, number) {
  const frame = number < step.sides ? frameOf(number) : frames[number];
  if (frame !== null) {
    setAttribute(frame.figure, "hidden", number >= step.sides);
    setAttribute(frame.figure, "aria-current", step.side === number ? "step" : null);
    if (step.side === number) {
      show(frame, step.at);
    }
  }
}

/** Gives the timelines of the runs that are shown the scale of the longest of them. */
function shareScale() {
  const shown = frames.filter((each) => each !== null && each.isReady && !each.figure.hidden);
  const atLeast = Math.max(0, ...shown.map(({ lasts }) => lasts));
  for (const { frame } of shown) {
    frame.contentWindow.postMessage({ atLeast }, "*");
  }
}

/** Brings the run that the step is about into view; it is in view already if the runs are side by side. */
function bringIntoView() {
  byId("frames").querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
}

function drawNext() {
  const { asks, isAwaited } = steps[current];
  const waits = isAwaited || asks !== undefined && !answers.has(asks) && classroom === null;
  setAttribute(byId("next"), "disabled", waits || current === steps.length - 1);
}

function awaiting() {
  const text = phase === "running"
    ? "The run goes on, live beside this text. It stops here at the next moment that matters."
    : "ZooKeeper and the brokers are starting, which takes some seconds …";
  return [h("p.waiting", {}, text)];
}

function unanswered() {
  return [h("p.waiting", {}, "The run goes on. The answer is here when it has ended: it is measured, not written.")];
}

/** The last step where a cluster runs: the learner breaks it. */
function ownHands() {
  let how = "The cluster takes commands once the run has ended.";
  if (!source.canCommand) {
    how = "This page only shows the cluster: it was opened without the token that commands need.";
  } else if (phase === "yours") {
    how = "The cluster of this run goes on, and takes commands now: open the menu ⋯ of a broker, "
      + "or press c on its page.";
  }
  return [h("h2", {}, "With your own hands"), h("p", { id: "yours" }, how), ...paragraphs(lesson.exercise)];
}

function paragraphs(text) {
  return text.trim().split(/\n\s*\n/).map((paragraph) => h("p", {}, ...marked(paragraph)));
}

function stopText(side, stop) {
  const missing = stop.record === null ? [h("p.faint", {}, "This run does not have that moment.")] : openValues(stop);
  const at = stop.at_ms === null ? side.title : `${side.title}, ${(stop.at_ms / 1000).toFixed(3)} s`;
  return [h("p.faint", {}, at), h("h2", {}, ...marked(stop.headline)), ...paragraphs(stop.text), ...missing];
}

/** Says what an ellipsis in a text stands for, while the run goes on. */
function openValues({ text }) {
  const isOpen = phase === "running" && text.includes("…");
  return isOpen ? [h("p.faint", {}, "What … stands for is known when the run has ended.")] : [];
}

function questionForm(title, name, question) {
  if (classroom !== null) {
    return [h("h2", {}, title), ...paragraphs(question.question)]; // the class answers
  }
  const answer = (value) => {
    answers.set(name, value);
    drawNext();
  };
  const inputs = question.choices.length > 0
    ? question.choices.map((text, number) => h("label", {}, h("input", {
      type: "radio", name: title, checked: answers.get(name) === number, onchange: () => answer(number),
    }), " ", ...marked(text)))
    : [h("label", {}, "your number ", h("input", {
      type: "number", step: "any", value: answers.get(name) ?? null,
      oninput: (event) => answer(Number(event.target.value)),
    }), ` ${question.unit}`)];
  const fieldset = h("fieldset", {}, h("legend", {}, "answer"), ...inputs);
  return [h("h2", {}, title), ...paragraphs(question.question), fieldset];
}

function verdict(begin, answer, question) {
  const [given, right] = question.choices.length > 0
    ? [question.choices[answer], question.choices[question.right_choice]]
    : [`${answer} ${question.unit}`, `${question.right_number} ${question.unit}`];
  const because = paragraphs(question.because);
  if (question.right_choice === null && question.right_number === null) {
    return [h("p", {}, "This run does not answer the question; compare the reason with what you saw."), ...because];
  }
  if (classroom !== null) {
    return [h("p", {}, "It is: ", ...marked(String(right))), ...because];
  }
  const judged = isRight(question, answer)
    ? h("p.right", {}, "✓ That is right.")
    : h("p.wrong", {}, "✗ It is: ", ...marked(String(right)));
  return [h("p", {}, `${begin}: `, ...marked(String(given))), judged, ...because];
}

function isRight(question, answer) {
  if (question.choices.length > 0) {
    return answer === question.right_choice;
  }
  return Math.abs(answer - question.right_number) <= Math.abs(question.right_number) * question.within / 100;
}

function tableOf(side) {
  if (side.table.length === 0) {
    return [];
  }
  const names = Object.keys(side.table[0]);
  const rows = side.table.map((row) => h("tr", {}, ...names.map((name) => h("td", {}, number(row[name])))));
  const head = h("tr", {}, ...names.map((name) => h("th", { scope: "col" }, name.replaceAll("_", " "))));
  const by = side.measured_by === "" ? [] : [h("p.faint", {}, `Computed by ${side.measured_by}.`)];
  const table = h("table", {}, head, ...rows);
  return [...by, h("div.table", { tabindex: 0, role: "group", "aria-label": side.title }, table)];
}

function number(value) {
  return typeof value === "number" && !Number.isInteger(value) ? value.toFixed(1) : String(value ?? "");
}

function reading(explain, read) {
  const names = { kafka: "Kafka", ours: "Understudy", kip: "", jira: "" };
  const list = h("ul", {}, ...read.map(({ kind, where, why }) =>
    h("li", {}, `${names[kind]} `, h("code", {}, where), `: ${why}`)));
  return [...paragraphs(explain), h("h2", {}, "To read"), list];
}

function move(steppingBy) {
  if (steppingBy > 0 && phase === "ready" && steps[current].asks === "predict") {
    begin();
  }
  current = Math.max(0, Math.min(current + steppingBy, steps.length - 1));
  draw();
  bringIntoView();
  byId("text").scrollTop = 0;
}

/** Lets the run begin; the next step waits for it in any case. */
async function begin() {
  try {
    await source.begin();
  } catch (error) {
    setText(byId("lesson-note"), `The run does not begin: ${error.message}`);
  }
}

window.addEventListener("message", (event) => {
  const frame = frames.find((each) => each !== null && each.frame.contentWindow === event.source);
  if (frame !== undefined && event.data?.isReady === true) {
    frame.isReady = true;
    ask(frame);
  } else if (frame !== undefined && Number.isFinite(event.data?.lasts)) {
    frame.lasts = event.data.lasts;
    shareScale();
  }
});
byId("next").addEventListener("click", () => move(1));
byId("back").addEventListener("click", () => move(-1));
window.addEventListener("resize", bringIntoView);
setText(byId("lesson-number"), `Lesson ${lesson.number || ""} · ${lesson.minutes} minutes · ${lesson.source}`);
setText(byId("lesson-title"), lesson.title);
document.title = `${lesson.title} · Understudy`;
update(source.document);
source.follow(update, (trouble) => setText(byId("lesson-trouble"), trouble));
document.body.dataset.ready = "true";
