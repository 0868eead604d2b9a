/**
 * The lesson that a page shows, from the server that runs it or from the page itself where it is one file.
 * Both give the same interface; nothing else of the page knows which it is.
 */

import { takeToken } from "#source";

const LOOK_EVERY_MS = 400;

/**
 * Opens the lesson of this page.
 *
 * @returns {Promise<LessonSource>} `document` has the lesson, its phase (`ready`, `starting`, `running`, `yours`,
 *   `over` or `failed`) and a note; `canCommand` says whether the page was opened with its token; `frameOf(side)`
 *   returns the attributes of the frame with its run; `begin()` lets the run begin; `read(path)` and
 *   `post(path, body)` ask the server of a page that was opened with its token; `follow(onDocument, onLost)` calls
 *   `onDocument` with each further document, and `onLost` with a text where there is none, or with an empty one.
 */
export async function openLesson() {
  const embedded = document.getElementById("lesson");
  return embedded === null ? openServed() : openEmbedded(JSON.parse(embedded.textContent));
}

function openEmbedded(lesson) {
  return {
    document: { lesson, phase: "over", note: "" },
    canCommand: false,
    frameOf: (side) => ({ srcdoc: pageOf(side) }),
    begin: async () => {},
    follow: () => {},
  };
}

/** The page of a run: the one that all frames share, with the run before its first script. */
function pageOf(side) {
  const [page, run] = ["frame", `side-${side}`].map((id) => JSON.parse(document.getElementById(id).textContent));
  const place = page.indexOf("<script");
  return page.slice(0, place) + run + page.slice(place);
}

async function openServed() {
  const token = takeToken();
  return {
    document: await read("/lesson.json"),
    canCommand: token !== null,
    frameOf: (side) => ({ src: `/${side}/` }),
    begin: () => post(token, "/begin", {}),
    read,
    post: (path, body) => post(token, path, body),
    follow,
  };
}

async function read(path) {
  const response = await fetch(path);
  if (!response.ok) {
    throw new Error(`the lesson cannot be read: ${response.status}`);
  }
  return response.json();
}

async function post(token, path, body) {
  const headers = { Authorization: `Bearer ${token}` };
  const response = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
  if (!response.ok) {
    throw new Error((await response.json()).error);
  }
}

/** Looks at the lesson again and again, one request at a time; for as long as something can change in it. */
function follow(onDocument, onLost) {
  const look = async () => {
    let phase = "";
    try {
      const found = await read("/lesson.json");
      onLost("");
      onDocument(found);
      phase = found.phase;
    } catch (error) {
      onLost(`The lesson is not served any more: ${error.message}`);
    }
    if (phase !== "over") {
      setTimeout(look, LOOK_EVERY_MS);
    }
  };
  setTimeout(look, LOOK_EVERY_MS);
}
