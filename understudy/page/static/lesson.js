/** A lesson: question, prediction, the stops of both runs on their pages, a question to check, what to read. */

import { byId, h, marked, setAttribute, setText } from "#dom";
import { partitionShown } from "#evidence";
import { openClass } from "#lesson_class";
import { openLesson } from "#lesson_source";
import { runsOf } from "#lesson_runs";
import { clock } from "#words";

/** Asks the frame for the newest moment of its run. */
const EDGE = "edge";

/** How much longer than until the last stop the timelines of two unequal runs are. */
const AFTER = 1.2;

/** The keys of a keyboard and of a presenter's remote that go to the next step, and to the one before. */
const NEXT_KEYS = ["ArrowRight", "ArrowDown", "PageDown", " "];
const BACK_KEYS = ["ArrowLeft", "ArrowUp", "PageUp"];

const source = await openLesson();
/** The class that this page leads; null if there is none. */
const classroom = await openClass(source);
const answers = new Map();
const frames = [null, null];
/** Whether the lesson is shown to a class: larger, and each answer only when it is asked for. */
const isPresented = new URLSearchParams(location.search).has("present");
let { lesson, phase } = source.document;
let steps = stepsOf();
const named = phase === "over" ? placeInAddress() : null;
let current = Math.min(classroom?.place ?? named ?? 0, steps.length - 1);
let drawn = "";
let isRevealed = false;

/**
 * The steps of the lesson. Each has its `kind`, what it is made of (`of`), how that is drawn, and what it shows of the
 * runs (`views`, by the number of the run); `side` is the run that it is about. `asks` is the name of a question that
 * must be answered before the next step, `judges` the name of the one whose answer is shown, `isAnswer` whether it
 * shows an answer, `says` a sentence for a screen reader, `headline` one for the phones of a class, and `isAwaited`
 * whether its moment has not happened yet.
 */
function stepsOf() {
  const { predict, check, sides: [one, other], question, intro, explain, read } = lesson;
  const isGoingOn = ["ready", "starting", "running"].includes(phase);
  const last = isGoingOn ? { at: EDGE } : lastView(0);
  // The plot of a sweep has the whole width.
  const hasPlot = Boolean(other.runs);
  const both = hasPlot ? [] : [last, lastView(1)];
  return [
    { kind: "question", of: [question, intro], draw: () => [...paragraphs(question), ...paragraphs(intro)] },
    asking("Predict", "predict", predict),
    ...one.stops.map((stop, place) => stopStep(0, place, isGoingOn && stop.record === null)),
    { ...judging("You predicted", "predict", predict, [one], isGoingOn), views: hasPlot ? [] : [last], side: 0 },
    ...other.stops.map((_, place) => stopStep(1, place, false)),
    { ...asking("Check", "check", check, lesson.sides), views: both },
    { ...judging("You answered", "check", check, lesson.sides, isGoingOn), views: both },
    { kind: "read", of: [explain], draw: () => paragraphs(explain), says: "The explanation." },
    {
      kind: "read",
      of: ["To read", read],
      draw: () => [h("h2", {}, "To read"), reading(read), ...origins()],
      says: "To read.",
    },
    ...(phase === "over" ? [] : [exercise()]),
  ].map((step) => ({ says: step.of[0], side: null, views: [], ...step }));
}

function exercise() {
  return { kind: "read", of: [lesson.exercise, phase], draw: ownHands, views: [{ at: EDGE }], side: 0 };
}

function stopStep(number, place, isAwaited) {
  const side = lesson.sides[number];
  const stop = side.stops[place];
  const views = [];
  views[number] = isAwaited ? { at: EDGE } : viewOf(number, place);
  const beside = lesson.sides[1 - number].stops.findIndex(({ name }) => name === stop.beside);
  if (beside >= 0 && !isAwaited) {
    views[1 - number] = viewOf(1 - number, beside);
  }
  return {
    kind: "moment",
    of: [stop, phase],
    draw: () => (isAwaited ? awaiting() : stopText(side, stop)),
    says: isAwaited ? "The run goes on." : stop.headline,
    isAwaited,
    side: number,
    headline: stop.headline,
    views,
  };
}

/** The place of the step that the address names, as in `#step=7`; null if it names none. */
function placeInAddress() {
  const step = new URLSearchParams(location.hash.slice(1)).get("step");
  return /^[1-9]\d{0,3}$/.test(step ?? "") ? Number(step) - 1 : null;
}

/** Goes to a step of a lesson that has ended, if its address is changed to name one. */
function followAddress() {
  const place = placeInAddress();
  if (place !== null && phase === "over" && classroom === null) {
    current = Math.min(place, steps.length - 1);
    isRevealed = false;
    draw();
    byId("words").scrollTop = 0;
  }
}

/**
 * What the page of a run is asked for: a record, the parts that prove the words, and the partitions of which the first
 * that exists at that moment is drawn: of these words or, if they are about none, of those before and after them.
 */
function viewOf(number, place) {
  const { stops } = lesson.sides[number];
  const own = partitionShown(stops[place].show);
  const earlier = stops.slice(0, place).reverse().map(({ show }) => partitionShown(show));
  const later = stops.slice(place + 1).map(({ show }) => partitionShown(show));
  const others = lesson.sides[1 - number].stops.map(({ show }) => partitionShown(show));
  const partitions = own === null ? [...earlier, ...later, ...others].filter((each) => each !== null) : [own];
  return { at: stops[place].record, show: stops[place].show, partitions };
}

/** A run at its last stop, with no part marked. */
function lastView(number) {
  return { ...viewOf(number, lesson.sides[number].stops.length - 1), show: [] };
}

function asking(title, name, question, sides = []) {
  const { question: text, choices } = question;
  const draw = () => [...(sides.length > 0 ? runsOf(sides) : []), ...questionForm(title, name, question)];
  return { kind: name, of: [text, choices], draw, asks: name };
}

function judging(begin, name, question, sides, isGoingOn) {
  const answer = () => (isHidden() ? [hidden()] : verdict(begin, answers.get(name), question));
  return {
    judges: name,
    kind: "answer",
    of: [question, isGoingOn],
    draw: () => [...runsOf(sides), ...(isGoingOn ? unanswered() : answer())],
    says: "The answer.",
    isAnswer: !isGoingOn,
  };
}

/** Whether the answer of this step has not been asked for yet. */
function isHidden() {
  return isPresented && !isRevealed;
}

function hidden() {
  return h("p", {}, h("button", { type: "button", id: "reveal", onclick: reveal }, "Show the answer"));
}

function reveal() {
  isRevealed = true;
  draw();
  byId("next").focus();
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
    const title = `the run: ${side.title}`;
    const frame = h("iframe", { title, "data-side": side.side, ...source.frameOf(side.side) });
    const made = side.recording ? [h("span.made", {}, `${side.recording.software}, ${side.recording.date}`)] : [];
    const caption = h("figcaption", {}, h("span", {}, side.title), ...made, h("span.here", {}, "◂ this step"));
    const figure = h("figure", { hidden: true }, caption, frame);
    byId("frames").append(figure);
    frames[number] = { frame, figure, isReady: false, wanted: null, line: null, lasts: 0 };
  }
  return frames[number];
}

function show(frame, view) {
  if (view.at !== null && JSON.stringify(view) !== JSON.stringify(frame.wanted)) {
    frame.wanted = view;
    frame.line = null;
    ask(frame);
  }
}

function ask({ frame, isReady, wanted }) {
  if (isReady && wanted !== null) {
    frame.contentWindow.postMessage({ ...wanted, isPresented }, "*");
  }
}

function draw() {
  const step = steps[current];
  const text = JSON.stringify([current, isRevealed, step.of]);
  if (text !== drawn) {
    drawn = text;
    byId("lesson-step").replaceChildren(...step.draw());
    setText(byId("lesson-says"), `Step ${current + 1} of ${steps.length}. ${step.says.trim().replaceAll("`", "")}`);
  }
  setAttribute(document.documentElement, "data-step", current + 1);
  setAttribute(document.documentElement, "data-kind", step.kind);
  lesson.sides.forEach((_, number) => drawFrame(step, number));
  const shown = frames.filter((each) => each !== null && !each.figure.hidden);
  setAttribute(document.body, "data-views", shown.length || null);
  shareScale();
  classroom?.show(forClass(step));
  setText(byId("progress"), `${current + 1} of ${steps.length}`);
  setAttribute(byId("back"), "disabled", current === 0);
  drawNext();
  measure();
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
    right: judges === undefined || value === null || isHidden()
      ? null
      : { value, within: choices.length > 0 ? 0 : Math.abs(value) * within / 100 },
  };
}

function drawFrame(step, number) {
  const view = step.views[number];
  const frame = view === undefined ? frames[number] : frameOf(number);
  if (frame !== null) {
    setAttribute(frame.figure, "hidden", view === undefined);
    setAttribute(frame.figure, "aria-current", step.side === number ? "step" : null);
    if (view !== undefined) {
      show(frame, view);
    }
  }
}

/** What depends on sizes: whether the words need the keyboard to scroll, and the line from them to the picture. */
function measure() {
  const words = byId("words");
  setAttribute(words, "tabindex", words.scrollHeight > words.clientHeight ? 0 : null);
  drawLine();
}

/** Draws a line from the headline of a step to the first part that proves it. */
function drawLine() {
  const step = steps[current];
  const frame = step.kind === "moment" ? frames[step.side] : null;
  const headline = byId("lesson-step").querySelector("h2");
  const isDrawn = Boolean(frame?.line && headline);
  setAttribute(byId("line"), "hidden", !isDrawn);
  if (isDrawn) {
    const zoom = Number(getComputedStyle(document.body).getPropertyValue("--zoom"));
    const points = [...toGutter(headline.getBoundingClientRect(), frame), ...pointsOf(frame)]
      .map((point) => point.map((each) => each / zoom));
    const [x, y] = points.at(-1);
    setAttribute(byId("line").children[0], "d", `M${points.map((point) => point.join(" ")).join("L")}`);
    setAttribute(byId("line").children[1], "cx", x);
    setAttribute(byId("line").children[1], "cy", y);
  }
}

/** The points of a line inside of the frame of a run, in this window; the first is at the edge of the frame. */
function pointsOf({ frame, line }) {
  const box = frame.getBoundingClientRect();
  const border = (box.width - frame.clientWidth / frame.offsetWidth * box.width) / 2;
  const scale = (box.width - 2 * border) / line.of;
  return line.points.map(([x, y]) => [box.left + border + x * scale, box.top + border + y * scale]);
}

/**
 * From a headline to the gap before a frame, at the height at which the line enters it. A run that another one stands
 * before is reached along the upper edge of that one.
 */
function toGutter(headline, frame) {
  const boxes = frames.filter((each) => each !== null).map((each) => each.frame.getBoundingClientRect());
  const first = boxes.find(({ width }) => width > 0);
  const own = frame.frame.getBoundingClientRect();
  const [[, enters]] = pointsOf(frame);
  const y = headline.top + 10;
  const gutter = (box) => Math.max(box.left - 4, 2);
  const from = first.left >= headline.right ? headline.right : headline.left - 2;
  const along = own.left > first.left ? [[gutter(first), own.top - 1], [gutter(own), own.top - 1]] : [];
  return [[from, y], [gutter(first), y], ...along, [gutter(own), enters]];
}

/**
 * Gives the timelines of all runs one scale: from their first records to the last stop and somewhat more, but not less
 * than the shortest run.
 */
function shareScale() {
  const ready = frames.filter((each) => each !== null && each.isReady);
  const lengths = ready.map(({ lasts }) => lasts);
  const stops = lesson.sides.flatMap((side) => side.stops.map(({ at_ms: ms }) => (ms ?? 0) * 1000));
  const stretch = Math.min(Math.max(0, ...lengths), Math.max(Math.min(...lengths), AFTER * Math.max(0, ...stops)));
  for (const { frame } of ready) {
    frame.contentWindow.postMessage({ stretch }, "*");
  }
}

function drawNext() {
  const { asks, isAwaited } = steps[current];
  const isAsked = asks !== undefined && !answers.has(asks);
  const waits = isAwaited || isAsked && !isPresented && classroom === null;
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
  const title = side.recording ? `${side.title} (recording)` : side.title;
  const at = stop.at_ms === null ? title : `${title}, ${clock(1000 * stop.at_ms)}`;
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
  if (answer === undefined || classroom !== null) {
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

/** Says of which software and day the runs are that are not simulated, and how to make such runs. */
function origins() {
  return lesson.sides.filter(({ recording }) => recording).map(({ title, recording: { software, date, command } }) =>
    h("p", {}, `${title}: a recording of ${software}, of ${date}. Such a run is made by `, h("code", {}, command)));
}

function reading(read) {
  const names = { kafka: "Kafka", ours: "Understudy", kip: "", jira: "" };
  return h("ul", {}, ...read.map(({ kind, where, why }) =>
    h("li", {}, `${names[kind]} `, h("code", {}, where), `: ${why}`)));
}

function move(steppingBy) {
  if (steppingBy > 0 && byId("next").disabled || steppingBy < 0 && byId("back").disabled) {
    return;
  }
  if (steppingBy > 0 && steps[current].isAnswer && isHidden()) {
    reveal();
    return;
  }
  if (steppingBy > 0 && phase === "ready" && steps[current].asks === "predict") {
    begin();
  }
  current += steppingBy;
  isRevealed = steppingBy < 0;
  draw();
  byId("words").scrollTop = 0;
}

/** Whether a key has a meaning of its own at an element: in an answer, on a button, or in words that scroll. */
function isTaken(key, target) {
  const isButton = key === " " && target.matches?.("button, a");
  const isAnswer = target.matches?.("input") && !key.startsWith("Page");
  return isButton || isAnswer || target === byId("words") && !["ArrowRight", "ArrowLeft"].includes(key);
}

function press(key) {
  if (NEXT_KEYS.includes(key)) {
    move(1);
  } else if (BACK_KEYS.includes(key)) {
    move(-1);
  }
}

/** Lets the run begin; the next step waits for it in any case. */
async function begin() {
  try {
    await source.begin();
  } catch (error) {
    setText(byId("lesson-note"), `The run does not begin: ${error.message}`);
  }
}

window.addEventListener("message", ({ source: from, data }) => {
  const frame = frames.find((each) => each !== null && each.frame.contentWindow === from);
  if (frame === undefined) {
    return;
  }
  if (data?.isReady === true) {
    frame.isReady = true;
    ask(frame);
  } else if (Array.isArray(data?.shown)) {
    frame.line = data.line;
    drawLine();
  } else if (Number.isFinite(data?.lasts)) {
    frame.lasts = data.lasts;
    shareScale();
  } else if (typeof data?.key === "string") {
    press(data.key);
  }
});
window.addEventListener("keydown", (event) => {
  const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey && !event.shiftKey;
  if (isPlain && [...NEXT_KEYS, ...BACK_KEYS].includes(event.key) && !isTaken(event.key, event.target)) {
    event.preventDefault();
    press(event.key);
  }
});
byId("next").addEventListener("click", () => move(1));
byId("back").addEventListener("click", () => move(-1));
window.addEventListener("resize", measure);
window.addEventListener("hashchange", followAddress);
new ResizeObserver(measure).observe(byId("frames"));
setAttribute(document.body, "data-present", isPresented);
setText(byId("lesson-number"), `Lesson ${lesson.number || ""} · ${lesson.minutes} minutes · ${lesson.source}`);
setText(byId("lesson-title"), lesson.title);
document.title = `${lesson.title} · Understudy`;
update(source.document);
source.follow(update, (trouble) => setText(byId("lesson-trouble"), trouble));
document.body.dataset.ready = "true";
