/** The page of a class on a phone: the step of the class, its question, and what the class has answered. */

import { byId, h, marked, setAttribute, setText } from "./dom.js";
import { digits } from "./words.js";

const AGAIN_MS = 3000;

let code = "";
let stream = null;
let again = 0;
/** The data that is shown; null before the first. */
let now = null;
/** The part of it that the elements of the step are made of, so that they stay while only the vote changes. */
let drawn = "";

/** Joins with the code of the address, or asks for one. */
async function start() {
  code = decodeURIComponent(location.hash.slice(1)).trim().toLowerCase();
  stream?.close();
  clearTimeout(again);
  now = null;
  drawn = "";
  if (code === "") {
    ask("");
    return;
  }
  try {
    const response = await post("/join", {});
    if (response.status === 401) {
      ask("That is not the code of this class.");
      return;
    }
    draw(await read(response));
    setAttribute(byId("join"), "hidden", true);
    follow();
  } catch (error) {
    lost(error);
  }
}

function ask(trouble) {
  setText(byId("trouble"), trouble);
  setAttribute(byId("join"), "hidden", false);
  byId("code").focus();
}

function follow() {
  stream = new EventSource("/events");
  stream.onopen = () => setText(byId("trouble"), "");
  stream.onmessage = (event) => draw(JSON.parse(event.data));
  stream.onerror = () => {
    if (stream.readyState === EventSource.CLOSED) {
      lost(new Error("the class does not answer"));
    } else {
      setText(byId("trouble"), "The connection is lost. Trying again …");
    }
  };
}

function lost(error) {
  setText(byId("trouble"), `${error.message[0].toUpperCase()}${error.message.slice(1)}. Trying again …`);
  again = setTimeout(start, AGAIN_MS);
}

function post(path, body) {
  return fetch(path, { method: "POST", headers: { Authorization: `Bearer ${code}` }, body: JSON.stringify(body) });
}

async function read(response) {
  const found = await response.json();
  if (!response.ok) {
    throw new Error(found.error);
  }
  return found;
}

async function vote(answer) {
  setText(byId("said"), "Sending …");
  try {
    draw(await read(await post("/vote", { question: now.step.question.name, answer })));
    setText(byId("trouble"), "");
    setText(byId("said"), "✓ Sent. You can change it until the class sees the answers.");
  } catch (error) {
    drawn = "";
    draw(now);
    setText(byId("said"), "");
    setText(byId("trouble"), `Not sent: ${error.message}`);
  }
}

function draw(found) {
  if (now !== null && found.version < now.version) {
    return; // the answer to a vote, which an event has overtaken
  }
  now = found;
  const { title, step, is_open: isOpen, tally } = now;
  setText(byId("title"), title);
  document.title = `${title} · a class`;
  setText(byId("place"), step === null ? "" : `step ${step.step} of ${step.of}`);
  const text = JSON.stringify(isOpen ? step : [step, tally, now.yours]);
  if (text !== drawn) {
    drawn = text;
    setText(byId("said"), "");
    byId("moment").replaceChildren(...elementsOf());
  }
  document.body.dataset.step = step?.step ?? 0;
}

function elementsOf() {
  const { step, is_open: isOpen, tally } = now;
  if (isOpen) {
    return [step.question.choices.length > 0 ? choices(step.question) : numberForm(step.question)];
  }
  if (tally !== null) {
    return result(step, tally);
  }
  const headline = step?.headline ? [h("h2", {}, ...marked(step.headline))] : [];
  return [...headline, h("p.aside", {}, step === null ? "The class begins soon." : "Look at the screen at the front.")];
}

function choices({ text, choices: all }) {
  const cards = all.map((choice, number) => h("label.choice", {}, h("input", {
    type: "radio", name: "answer", checked: now.yours === number, onchange: () => vote(number),
  }), h("span", {}, ...marked(choice))));
  return h("fieldset", {}, h("legend", {}, ...paragraphs(text)), ...cards);
}

function numberForm({ text, unit }) {
  const input = h("input", {
    id: "number", type: "number", step: "any", inputmode: "decimal", required: true, value: now.yours,
  });
  const send = (event) => {
    event.preventDefault();
    vote(input.valueAsNumber);
  };
  const label = h("label", { for: "number" }, ...paragraphs(text));
  return h("form", { onsubmit: send }, label, h("p.row", {}, input, h("span", {}, unit), h("button", {
    type: "submit",
  }, "Send")));
}

function result({ question }, tally) {
  const { choices: all, text, unit } = question;
  const answered = h("p.aside", {}, `${tally.answered} answered${
    tally.are_right === null ? "" : `, ${tally.are_right} of them right`}.`);
  const shown = all.length > 0 ? [bars(all, tally)] : numbers(unit, tally);
  return [...judged(question, tally), ...paragraphs(text), ...shown, answered];
}

function judged({ choices: all, unit }, { right }) {
  if (right === null) {
    return [];
  }
  if (now.is_right === true) {
    return [h("p.right", {}, "✓ That is right.")];
  }
  const wanted = all.length > 0 ? marked(all[right.value]) : [`${digits(right.value)} ${unit}`];
  return [h(now.yours === null ? "p" : "p.wrong", {}, now.yours === null ? "It is: " : "✗ It is: ", ...wanted)];
}

function bars(all, { counts, answered, right }) {
  return h("ol.votes", {}, ...all.map((text, number) => {
    const isYours = now.yours === number;
    const isRight = right !== null && right.value === number;
    const bar = h("div.bar", {});
    bar.style.setProperty("--part", answered === 0 ? 0 : counts[number] / answered);
    const item = h("li", {}, h("div.text", {}, h("span", {}, isRight ? "✓ " : "", ...marked(text)),
      h("b", {}, String(counts[number]))), bar, isYours ? h("small", {}, "your answer") : null);
    item.classList.toggle("is-yours", isYours);
    item.classList.toggle("is-right", isRight);
    return item;
  }));
}

function numbers(unit, { median }) {
  const yours = now.yours === null ? [] : [h("p", {}, "Your answer: ", h("b", {}, `${now.yours} ${unit}`))];
  const middle = median === null ? [] : [h("p", {}, "Median of the class: ", h("b", {}, `${digits(median)} ${unit}`))];
  return [...yours, ...middle];
}

function paragraphs(text) {
  return text.trim().split(/\n\s*\n/).map((paragraph) => h("p", {}, ...marked(paragraph)));
}

byId("join").addEventListener("submit", (event) => {
  event.preventDefault();
  const typed = byId("code").value.trim();
  if (location.hash === `#${typed}`) {
    start();
  } else {
    location.hash = typed;
  }
});
window.addEventListener("hashchange", start);
await start();
document.body.dataset.ready = "true";
