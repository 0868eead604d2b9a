/** A lesson: question, prediction, the stops of both runs on their pages, a question to check, what to read. */

import { byId, h, setAttribute, setText } from "#dom";

const lesson = JSON.parse(byId("lesson").textContent);
const answers = new Map();
const frames = lesson.sides.map((side) => frameOf(side));
const steps = stepsOf(lesson);
let current = 0;

/** The steps of a lesson, each with what it shows; `question` is one that must be answered before the next step. */
function stepsOf({ predict, check, sides: [one, other], intro, explain, read }) {
  return [
    { draw: () => [...paragraphs(lesson.question), ...paragraphs(intro)], sides: 0 },
    { draw: () => questionForm("Predict", predict), question: predict, sides: 0 },
    ...one.stops.map((stop) => ({ draw: () => stopText(one, stop), stop, side: 0, sides: 1 })),
    { draw: () => [...tableOf(one), ...verdict("You predicted", predict)], sides: 1 },
    ...other.stops.map((stop) => ({ draw: () => stopText(other, stop), stop, side: 1, sides: 2 })),
    { draw: () => [...tableOf(other), ...questionForm("Check", check)], question: check, sides: 2 },
    { draw: () => verdict("You answered", check), sides: 2 },
    { draw: () => [...paragraphs(explain), h("h2", {}, "To read"), reading(read)], sides: 2 },
  ];
}

function frameOf(side) {
  const text = byId(`side-${side.side}`).textContent;
  const frame = h("iframe", { title: `the run: ${side.title}`, srcdoc: JSON.parse(text) });
  const figure = h("figure", { hidden: true }, h("figcaption", {}, side.title), frame);
  byId("frames").append(figure);
  return { frame, figure, isReady: false, wanted: null };
}

function show(frame, record) {
  frame.wanted = record;
  if (frame.isReady && record !== null) {
    frame.frame.contentWindow.postMessage({ at: record }, "*");
  }
}

function draw() {
  const step = steps[current];
  byId("lesson-step").replaceChildren(...step.draw());
  frames.forEach((frame, number) => {
    setAttribute(frame.figure, "hidden", number >= step.sides);
    setAttribute(frame.figure, "data-current", String(step.side === number));
  });
  if (step.stop !== undefined) {
    show(frames[step.side], step.stop.record);
  }
  setText(byId("progress"), `${current + 1} of ${steps.length}`);
  setAttribute(byId("back"), "disabled", current === 0);
  drawNext();
}

function drawNext() {
  const { question } = steps[current];
  const waits = question !== undefined && !answers.has(question);
  setAttribute(byId("next"), "disabled", waits || current === steps.length - 1);
}

function paragraphs(text) {
  return text.trim().split(/\n\s*\n/).map((paragraph) => h("p", {}, ...marked(paragraph)));
}

/** Text with what is between backquotes as code. */
function marked(text) {
  return text.split("`").map((part, number) => (number % 2 === 1 ? h("code", {}, part) : part));
}

function stopText(side, stop) {
  const missing = stop.record === null ? [h("p.faint", {}, "This run does not have that moment.")] : [];
  const at = stop.at_ms === null ? side.title : `${side.title}, ${(stop.at_ms / 1000).toFixed(3)} s`;
  return [h("p.faint", {}, at), h("h2", {}, ...marked(stop.headline)), ...paragraphs(stop.text), ...missing];
}

function questionForm(title, question) {
  const answer = (value) => {
    answers.set(question, value);
    drawNext();
  };
  const inputs = question.choices.length > 0
    ? question.choices.map((text, number) => h("label", {}, h("input", {
      type: "radio", name: title, checked: answers.get(question) === number, onchange: () => answer(number),
    }), " ", ...marked(text)))
    : [h("label", {}, "your number ", h("input", {
      type: "number", step: "any", value: answers.get(question) ?? null,
      oninput: (event) => answer(Number(event.target.value)),
    }), ` ${question.unit}`)];
  const fieldset = h("fieldset", {}, h("legend", {}, "answer"), ...inputs);
  return [h("h2", {}, title), ...paragraphs(question.question), fieldset];
}

function verdict(begin, question) {
  const answer = answers.get(question);
  const [given, right] = question.choices.length > 0
    ? [question.choices[answer], question.choices[question.right_choice]]
    : [`${answer} ${question.unit}`, `${question.right_number} ${question.unit}`];
  const because = paragraphs(question.because);
  if (question.right_choice === null && question.right_number === null) {
    return [h("p", {}, "This run does not answer the question; compare the reason with what you saw."), ...because];
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
  return [h("div.table", { tabindex: 0, role: "group", "aria-label": side.title }, h("table", {}, head, ...rows))];
}

function number(value) {
  return typeof value === "number" && !Number.isInteger(value) ? value.toFixed(1) : String(value ?? "");
}

function reading(read) {
  const names = { kafka: "Kafka", ours: "Understudy", kip: "", jira: "" };
  return h("ul", {}, ...read.map(({ kind, where, why }) =>
    h("li", {}, `${names[kind]} `, h("code", {}, where), `: ${why}`)));
}

function move(steppingBy) {
  current = Math.max(0, Math.min(current + steppingBy, steps.length - 1));
  draw();
  byId("text").scrollTop = 0;
}

window.addEventListener("message", (event) => {
  const frame = frames.find((each) => each.frame.contentWindow === event.source);
  if (frame !== undefined && event.data?.isReady === true) {
    frame.isReady = true;
    show(frame, frame.wanted);
  }
});
byId("next").addEventListener("click", () => move(1));
byId("back").addEventListener("click", () => move(-1));
setText(byId("lesson-number"), `Lesson ${lesson.number || ""} · ${lesson.minutes} minutes · ${lesson.source}`);
setText(byId("lesson-title"), lesson.title);
document.title = `${lesson.title} · Understudy`;
draw();
document.body.dataset.ready = "true";
