/**
 * The records of the run, from the server that serves the page or from the page itself where it is one file.
 * Both give the same interface; nothing else of the page knows which it is.
 */

const AHEAD = 3;
const RECONNECT_MS = 2000;
const TOKEN = "understudy-token";
/** What changes in run.json, besides what the chunks and events say. */
const CHANGING = ["findings", "findings_count", "missing", "clocks", "clocks_note"];

/**
 * Opens the run that this page shows.
 *
 * @returns {Promise<Source>} `run` is the object of run.json; `chunks()` yields the texts of JSON arrays of records,
 *   in order; `events(onRecords, onEnd, onState)` follows a live run from the last record of `chunks()` on and returns
 *   a function that stops it: `onRecords` gets such texts, `onState` gets `open` or `lost`; `refresh()` updates in
 *   `run` what changes: the damage, the verdict on missing records, the clocks, and whether the cluster takes commands
 *   now, which it does not while an experiment runs; `command(path, body)` posts to the control port, for example
 *   `command("/verbs/kill", {target: "1"})`, and resolves to its answer or rejects with an `Error` whose `status` is
 *   that of the answer.
 */
export async function openSource() {
  const embedded = document.getElementById("run");
  return embedded === null ? openServed() : openEmbedded(JSON.parse(embedded.textContent));
}

async function openServed() {
  const token = takeToken();
  const run = await (await get("run.json")).json();
  run.can_command = run.can_command && token !== null;
  const read = { records: 0 };
  const refresh = async () => {
    const now = await (await get("run.json")).json();
    for (const name of CHANGING) {
      run[name] = now[name];
    }
    run.can_command = now.can_command && token !== null;
  };
  return {
    run,
    chunks: () => servedChunks(run, read),
    events: (onRecords, onEnd, onState) => follow(read, onRecords, onEnd, onState),
    refresh,
    command: (path, body) => command(token, path, body),
  };
}

function openEmbedded(run) {
  return {
    run,
    chunks: () => embeddedChunks(run.chunks),
    events: (onRecords, onEnd) => {
      onEnd();
      return () => {};
    },
    refresh: async () => {},
    command: async () => {
      throw failure("this page is a file: it cannot send commands", 0);
    },
  };
}

/**
 * Takes the token out of the address, so that a copied address does not have it; a reload still finds it, and so does a
 * frame with a page of the same server.
 * @returns {null|string} null where the page was opened without it
 */
export function takeToken() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const token = parts.get("token");
  if (token === null) {
    return sessionStorage.getItem(TOKEN);
  }
  sessionStorage.setItem(TOKEN, token);
  parts.delete("token");
  history.replaceState(history.state, "", parts.size === 0 ? location.pathname + location.search : `#${parts}`);
  return token;
}

async function get(address) {
  const response = await fetch(address);
  if (!response.ok) {
    throw await failureOf(response);
  }
  return response;
}

/**
 * Yields chunks until one is not full: a live run may have more of them than it had at first. While the server still
 * reads the logs, it answers when the chunk is full.
 */
async function* servedChunks(run, read) {
  const known = run.is_live || run.is_being_read ? Infinity : run.chunks;
  const waiting = [];
  let next = 0;
  read.records = 0;
  for (let number = 0; number < known; number += 1) {
    while (next < known && next <= number + AHEAD && (next < run.chunks || next === number)) {
      waiting.push(get(`chunks/${next}`));
      next += 1;
    }
    const response = await waiting.shift();
    const records = Number(response.headers.get("understudy-records"));
    if (records === run.chunk_records && next === number + 1 && next < known) {
      waiting.push(get(`/chunks/${next}`));
      next += 1;
    }
    const text = await response.text();
    read.records += records;
    if (records > 0) {
      yield text;
    }
    if (records < run.chunk_records) {
      return;
    }
  }
}

async function* embeddedChunks(count) {
  for (let number = 0; number < count; number += 1) {
    yield unpacked(document.getElementById(`chunk-${number}`).textContent);
  }
}

function unpacked(base64) {
  const bytes = Uint8Array.from(atob(base64.trim()), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

/** Follows a live run. EventSource connects again by itself, but for an answer such as 503. */
function follow(read, onRecords, onEnd, onState = () => {}) {
  let events = null;
  let timer = null;
  const stop = () => {
    clearTimeout(timer);
    events.close();
  };
  const open = () => {
    events = new EventSource(`events?after=${read.records}`);
    events.onopen = () => onState("open");
    events.onmessage = (event) => {
      read.records = Number(event.lastEventId);
      onRecords(event.data);
    };
    events.addEventListener("ended", () => {
      stop();
      onEnd();
    });
    events.onerror = () => {
      onState("lost");
      if (events.readyState === EventSource.CLOSED) {
        timer = setTimeout(open, RECONNECT_MS);
      }
    };
  };
  open();
  return stop;
}

async function command(token, path, body) {
  const response = await fetch(`control${path}`, {
    method: "POST",
    headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!response.ok) {
    throw await failureOf(response);
  }
  return response.json();
}

async function failureOf(response) {
  const text = await response.text();
  try {
    return failure(JSON.parse(text).error, response.status);
  } catch {
    return failure(text, response.status);
  }
}

function failure(message, status) {
  return Object.assign(new Error(message), { status });
}
