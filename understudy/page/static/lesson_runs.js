/** The runs of a sweep: a picture of them, or their table in its place, and the run that is chosen, in words. */

import { h, setAttribute } from "#dom";
import { digits, fixed } from "#words";

/** Whether the table is shown; a reader who wants it wants it at the next step also. */
let asTable = false;

/**
 * The runs of some sides of a lesson, the last of which says how they are drawn.
 * @param {Object[]} sides of a `PreparedLesson`; each has `title`, `table` and `runs`
 * @returns {HTMLElement[]} one element, or none if the last side is no sweep
 */
export function runsOf(sides) {
  const { runs, measured_by: by } = sides.at(-1);
  if (runs === null) {
    return [];
  }
  const plot = h("div.plots", {}, ...pictures(runs.plot));
  const table = h("div.table", { tabindex: 0, role: "group", "aria-label": "the runs as a table" }, tableOf(sides));
  const chosen = h("p.chosen", { role: "status" }, "Choose a dot to see its run.");
  const button = h("button", { type: "button", "data-runs-table": true, "aria-keyshortcuts": "t" });
  const show = () => {
    setAttribute(plot, "hidden", asTable);
    setAttribute(table, "hidden", !asTable);
    button.textContent = asTable ? "Picture (t)" : "Table (t)";
  };
  button.addEventListener("click", () => {
    asTable = !asTable;
    show();
  });
  const choose = (event) => {
    const run = event.target.closest("[data-run]")?.dataset.run;
    const side = sides.find(({ table: rows }) => rows.some((row) => row.run === run));
    if (side !== undefined) {
      chosen.replaceChildren(...about(side, side.table.find((row) => row.run === run)));
      mark(run);
    }
  };
  const mark = (run) => {
    for (const each of [...plot.querySelectorAll("[data-run]"), ...table.querySelectorAll("tr[data-run]")]) {
      setAttribute(each, "aria-current", each.dataset.run === run);
    }
  };
  plot.addEventListener("click", choose);
  table.addEventListener("click", choose);
  show();
  const note = by === "" ? [] : [h("small.faint", {}, `Computed by ${by}.`)];
  const head = h("p.choices", {}, button, ...note);
  const evidence = { "data-part": "runs", "data-evidence": 1, "data-mark": true };
  return [h("div.runs", { ...evidence, role: "group", "aria-label": "the runs" }, head, plot, table, chosen)];
}

function pictures(text) {
  const parsed = new DOMParser().parseFromString(`<pictures>${text}</pictures>`, "text/xml");
  return [...parsed.documentElement.children].map((each) => document.importNode(each, true));
}

function tableOf(sides) {
  const names = Object.keys(sides[0].table[0]).filter((name) => name !== "run");
  const head = h("tr", {}, ...["run", ...names.map(titleOf)].map((name) => h("th", { scope: "col" }, name)));
  const bodies = sides.map(({ title, table, runs }) => h("tbody", {},
    h("tr", {}, h("th", { colspan: names.length + 1, scope: "rowgroup" }, `${title}, shortest outage first, ms`)),
    ...table.map((row) => h("tr", { "data-run": row.run },
      h("td", {}, h("button", { type: "button", title: row.run }, row.run.slice(runs.prefix.length))),
      ...names.map((name) => h("td", {}, fixed(row[name], 1)))))));
  return h("table", {}, h("thead", {}, head), ...bodies);
}

function about(side, row) {
  const { prefix, opened_by: command, kept } = side.runs;
  const seed = row.run.slice(prefix.length);
  const parts = ["outage", "detection", "election", "takeover", "propagation"]
    .map((name) => `${name} ${digits(row[`${name}_ms`])}`);
  const text = `Run ${seed} of ${side.title}: ${parts.join(", ")} ms. `;
  if (row.run === kept) {
    return [text, "It is the run of median outage, whose page is here."];
  }
  return [text, "Made again and opened by ",
    h("code", {}, command.replace("SEED", seed).replace("RUN", row.run))];
}

function titleOf(name) {
  return name.replace(/_ms$/, "");
}

document.addEventListener("keydown", (event) => {
  const isText = event.target instanceof HTMLInputElement && event.target.type !== "radio";
  if (event.key === "t" && !isText && !event.ctrlKey && !event.metaKey && !event.altKey) {
    document.querySelector("[data-runs-table]")?.click();
  }
});
