/** The keyboard: every command of the page by a key. */

import { byId } from "#dom";

/** Keys with what they do, for the help and for the listener. */
export const KEYS = [
  [" ", "space", "play or pause", ({ player }) => player.toggle()],
  ["ArrowRight", "→", "next record", ({ player }) => player.toRecord(player.n + 1)],
  ["ArrowLeft", "←", "previous record", ({ player }) => player.toRecord(player.n - 1)],
  ["n", "n", "next sentence of the story", (page) => page.stepStory(1)],
  ["p", "p", "previous sentence of the story", (page) => page.stepStory(-1)],
  ["f", "f", "next fault", (page) => page.stepFault(1)],
  ["F", "Shift+F", "previous fault", (page) => page.stepFault(-1)],
  ["Home", "Home", "beginning of the run", ({ player }) => player.toRecord(0)],
  ["End", "End", "live edge, or end of the run", ({ player }) => player.toEdge()],
  ["+", "+", "faster", ({ player }) => player.changeSpeed(1)],
  ["-", "−", "slower", ({ player }) => player.changeSpeed(-1)],
  ["z", "z", "zoom the timeline in", ({ timeline }) => timeline.zoom(2)],
  ["Z", "Shift+Z", "zoom the timeline out", ({ timeline }) => timeline.zoom(0.5)],
  ["t", "t", "all strips, or two", (page) => page.toggleStrips()],
  ["c", "c", "commands for the cluster", ({ commands }) => commands.open(null)],
  ["l", "l", "copy a link to this moment", (page) => page.copyLink()],
  ["?", "?", "this help", () => byId("help").showModal()],
];

/** On the timeline, the keys of a slider mean what these do. */
const ON_SLIDER = new Map([
  ["ArrowUp", "ArrowRight"], ["ArrowDown", "ArrowLeft"], ["PageUp", "n"], ["PageDown", "p"],
]);

/** What a presenter's remote sends, on a page with `?present`: the next and the previous sentence of the story. */
const ON_REMOTE = new Map([
  [" ", "n"], ["PageDown", "n"], ["ArrowRight", "n"], ["ArrowDown", "n"], ["PageUp", "p"], ["ArrowLeft", "p"],
  ["ArrowUp", "p"],
]);

/** Listen to keys; `page` has what the functions of `KEYS` take. */
export function listenToKeys(page) {
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.matches?.("input, select, textarea, dialog[open] *");
    const isButton = event.key === " " && event.target.matches?.("button, summary");
    if (isTyping || isButton || event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    const isOnSlider = event.target.matches?.("[role=slider]");
    const meant = page.isPresented ? ON_REMOTE.get(event.key) : isOnSlider && ON_SLIDER.get(event.key);
    const wanted = meant || event.key;
    const found = KEYS.find(([key]) => key === wanted);
    if (found !== undefined) {
      event.preventDefault();
      found[3](page);
    }
  });
}
