/**
 * The row of clients: a card for each process that has clients of its own, with what waits for an answer, what it
 * reads, its view of its group, and a connection that it tries. Many clients, and those in a lesson, where the picture
 * has to fit its window, are a list with one line for each.
 */

import { TYPE, US, WORDS } from "#catalogue";
import { LIFE_SIGNS, LIFE_WORDS } from "#cluster";
import { byId, explain, h, keyed, setAttribute, setText } from "#dom";
import { isSent } from "#requests";
import { clock, count, duration, nodeName } from "#words";

const MOST_CARDS = 8;
const MOST_LINES = 4;
const MOST_SENT = 2;
const MOST_READS = 12;
const MOST_SENTENCES = 5;

/** What a member does in its group, by Kafka's name of its state. */
const MEMBER_WORDS = new Map([
  ["UNJOINED", "no member of"], ["PREPARING_REBALANCE", "joins"],
  ["COMPLETING_REBALANCE", "waits for its assignment in"], ["STABLE", "stable in"],
]);

/** Draws the cards. The row is hidden if the run has no such process. */
export class ClientsView {
  constructor(history, catalogue, player) {
    this._history = history;
    this._catalogue = catalogue;
    this._player = player;
    this._list = byId("clients");
  }

  /**
   * Draw the clients at a moment.
   *
   * Args:
   *   chosen: the partition whose values are marked, or null.
   *   isReachable: whether the tab key reaches each card.
   *   wanted: the names of the parts that prove a step. In a small window there is room for these clients only.
   */
  draw(state, chosen, us, isReachable, wanted) {
    const nodes = new Map([...state.nodes].filter(([, { role }]) => role === "client"));
    const names = [...nodes.keys()].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
    const isList = names.length > MOST_CARDS || document.body.hasAttribute("data-folded");
    setAttribute(this._list, "hidden", names.length === 0);
    setAttribute(this._list, "data-form", isList ? "list" : "cards");
    const first = wanted.find((part) => names.some((name) => part === partOf(name)));
    setAttribute(this._list, "data-wanted", first === undefined ? null : first === wanted[0] ? "first" : "");
    for (const [name, card] of keyed(this._list, names, newCard)) {
      setAttribute(card, "data-wanted", wanted.includes(partOf(name)));
      const node = nodes.get(name);
      const sentences = this._lastOf(name);
      const hasEnded = sentences.length > 0 && this._history.recordAt(sentences.at(-1))[TYPE] === "ProcessExiting";
      drawCard(card, name, node, factsOf(node, chosen, us), { hasEnded, isList, isReachable });
      this._drawSentences(card, isList ? [] : sentences, node.clients.size === 0);
    }
  }

  /** The numbers of the records with words of a process before this moment, at most `MOST_SENTENCES`. */
  _lastOf(name) {
    const sentences = this._catalogue.sentencesOf(name);
    const until = sentences.countBelow(this._player.n);
    const numbers = [];
    for (let place = Math.max(0, until - MOST_SENTENCES); place < until; place += 1) {
      numbers.push(sentences.at(place));
    }
    return numbers;
  }

  /** What a process did last: folded in, unless the card has nothing else to say (`isAll`). */
  _drawSentences(card, numbers, isAll) {
    const last = card.querySelector("details");
    if (last.isAll !== isAll) {
      last.isAll = isAll;
      last.open = isAll;
    }
    setAttribute(last, "hidden", numbers.length === 0);
    keyed(last.querySelector("ol"), numbers.map(String), (key) => this._sentence(Number(key)));
  }

  _sentence(number) {
    const record = this._history.recordAt(number);
    const time = clock(Math.round(record[US] - this._catalogue.first));
    return h("li", {}, h("time", {}, time), ` ${record[WORDS]}`);
  }
}

function partOf(name) {
  return `client:${name}`;
}

function newCard(name) {
  return h(
    "div.client", { "data-node": name, "data-part": partOf(name) },
    h("h3", {}, h("span.sign", { "aria-hidden": "true" }), h("span.name", {}, name)),
    h("p.life", {}, h("span.kind"), h("span.word")),
    h("ul.waits"),
    h("ul.reads"),
    h(
      "details", { hidden: true },
      h("summary", {}, "what it did last"),
      h("ol", { "aria-label": `what ${name} did last` }),
    ),
  );
}

function drawCard(card, name, node, { kind, lines, reads }, { hasEnded, isList, isReachable }) {
  const [title, life, waits, readings] = card.children;
  const start = node.incarnation > 1 ? `, start ${node.incarnation}` : "";
  const word = `${hasEnded ? "ended" : LIFE_WORDS[node.life]}${start}`;
  const isPlain = word === LIFE_WORDS.running;
  setAttribute(card, "data-life", hasEnded ? "ended" : node.life);
  setAttribute(card, "data-waits", lines.some(({ isUrgent }) => isUrgent));
  setText(title.querySelector(".sign"), hasEnded ? "○" : LIFE_SIGNS[node.life]);
  setText(life.firstElementChild, isPlain ? kind : `${kind}, `);
  setText(life.lastElementChild, isPlain ? "" : word);
  setAttribute(life, "hidden", isList && isPlain);
  drawLines(waits, isList ? lines.slice(0, 1) : lines);
  drawReads(readings, isList && lines.length > 0 ? [] : reads);
  const texts = [...lines, ...reads].map(({ text, title: longer }) => longer ?? text);
  explain(card, `${name}, ${kind}, ${word}${texts.length > 0 ? `: ${texts.join("; ")}` : ""}`, isReachable);
}

function drawLines(list, lines) {
  const items = keyed(list, lines.map(({ key }) => key), () => h("li"));
  for (const { key, text, title, isUrgent, isChosen } of lines) {
    const item = items.get(key);
    setText(item, text);
    setAttribute(item, "title", title ?? null);
    setAttribute(item, "data-urgent", isUrgent === true);
    setAttribute(item, "data-chosen", isChosen === true);
  }
}

function drawReads(list, reads) {
  const shown = reads.slice(0, MOST_READS);
  const more = reads.length - shown.length;
  const items = keyed(list, [...shown.map(({ key }) => key), ...(more > 0 ? [""] : [])], () => h("li"));
  for (const { key, text, title, isUrgent, isChosen } of shown) {
    const item = items.get(key);
    setText(item, text);
    setAttribute(item, "title", title);
    setAttribute(item, "data-urgent", isUrgent);
    setAttribute(item, "data-chosen", isChosen);
  }
  if (more > 0) setText(items.get(""), `and ${more} more`);
}

// ------------------------------------------------------------------ what a card says

/** What a process's clients do, as lines and as positions of partitions; nothing for a process that has ended. */
function factsOf(node, chosen, us) {
  const isNamed = node.clients.size > 1;
  const facts = { kind: isNamed ? count(node.clients.size, "client") : "client", lines: [], reads: [] };
  for (const [id, client] of node.clients) {
    if (!isNamed) facts.kind = kindOf(client);
    if (node.life === "dead") continue;
    const found = factsOfClient(client, chosen, us);
    for (const part of ["lines", "reads"]) {
      for (const fact of found[part]) {
        const text = isNamed ? `${id}: ${fact.text}` : fact.text;
        facts[part].push({ ...fact, key: `${id} ${fact.key}`, text });
      }
    }
  }
  return facts;
}

function kindOf(client) {
  if (client.groups.size > 0) return "member of a group";
  if (client.waiting.size + client.sent.size > 0) return "producer";
  return client.reads.size > 0 ? "consumer" : "client";
}

function factsOfClient(client, chosen, us) {
  const waiting = [...partitionsOf(client.waiting, chosen)].map((each) => waitsFor(each, us));
  const shown = waiting.slice(0, MOST_LINES);
  const more = waiting.length - shown.length;
  const lines = [
    ...shown,
    ...(more > 0 ? [{ key: "more", text: `and records for ${count(more, "more partition")}`, isUrgent: true }] : []),
    ...commitLines(client, chosen, us),
    ...connectionLines(client, us),
    ...lookupLines(client, us),
    ...[...client.groups].map(([group, membership]) => memberLine(group, membership, us)),
    ...sentLines(client, chosen),
  ];
  const reads = client.groups.size > 0 ? owned(client, chosen) : [...partitionsOf(client.reads, chosen)];
  return { lines, reads: reads.map(readOf) };
}

/** The partitions that a member owns with its position in each, the chosen one first; it has not read each of them. */
function owned({ groups, reads }, chosen) {
  const found = [...groups.values()].flatMap(({ partitions }) => partitions).map(([topic, number]) => {
    const partition = String(number);
    const isChosen = chosen !== null && topic === chosen[0] && partition === chosen[1];
    return { name: `${topic}-${partition}`, value: reads.at(topic, partition) ?? null, isChosen };
  });
  return found.sort((one, other) => other.isChosen - one.isChosen);
}

/** The partitions of a table with their values, the chosen one first. */
function* partitionsOf(table, chosen) {
  const first = chosen === null ? undefined : table.at(...chosen);
  if (first !== undefined) yield { name: chosen.join("-"), value: first, isChosen: true };
  for (const [topic, partitions] of table) {
    for (const [partition, value] of partitions) {
      if (first === undefined || topic !== chosen[0] || partition !== chosen[1]) {
        yield { name: `${topic}-${partition}`, value, isChosen: false };
      }
    }
  }
}

function waitsFor({ name, value: batches, isChosen }, us) {
  const [oldest] = batches;
  const records = batches.length === 1 && Number.isInteger(oldest.records)
    ? `${count(oldest.records, "record")} ${oldest.records === 1 ? "waits" : "wait"}`
    : `${count(batches.length, "batch")} wait`;
  const attempt = oldest.attempt > 1 ? `, attempt ${oldest.attempt}` : "";
  const text = `${records} for ${name}${whereTo(oldest, "leader")}, ${duration(us - oldest.since_us)}${attempt}`
    + failureOf(oldest);
  return { key: `waits ${name}`, text, isUrgent: true, isChosen };
}

function whereTo({ broker }, receiver) {
  return broker === "" ? `, no ${receiver} to send to` : ` at ${nodeName(broker)}`;
}

function failureOf(request) {
  return request.broker === "" || isSent(request) ? "" : `: ${request.error || "no answer"}, tries again`;
}

/** The offsets whose commit waits for an answer. A member commits those of all its partitions in one request. */
function commitLines({ commits }, chosen, us) {
  const waiting = [...partitionsOf(commits, chosen)];
  if (waiting.length === 0) return [];
  const oldest = waiting.reduce((one, other) => (other.value.since_us < one.value.since_us ? other : one)).value;
  const offsets = waiting.map(({ name, value }) => `offset ${value.offset} of ${name}`);
  const end = `waits${whereTo(oldest, "coordinator")}, ${duration(us - oldest.since_us)}${failureOf(oldest)}`;
  const text = `commit of ${offsets.length === 1 ? offsets[0] : count(offsets.length, "offset")} ${end}`;
  const title = `commit of ${offsets.join(", ")} ${end}`;
  return [{ key: "commit", text, title, isUrgent: true, isChosen: waiting.some(({ isChosen }) => isChosen) }];
}

/** A connection that is being tried, or has failed and is still needed. */
function connectionLines(client, us) {
  const needed = new Set([...client.groups].map(([, { coordinator }]) => `broker-${coordinator}`));
  for (const { value } of partitionsOf(client.commits, null)) needed.add(value.broker);
  for (const { value } of partitionsOf(client.reads, null)) needed.add(value.broker);
  for (const { value } of partitionsOf(client.waiting, null)) value.forEach(({ broker }) => needed.add(broker));
  return [...client.connections]
    .filter(([broker, { state }]) => state === "connecting" || state === "failed" && needed.has(broker))
    .map(([broker, { state, since_us, reason }]) => {
      const what = state === "connecting" ? "connects to" : "cannot connect to";
      const text = `${what} ${nodeName(broker)}, ${duration(us - since_us)}`;
      const title = reason === "" ? text : `${text}: ${reason}`;
      return { key: `connection ${broker}`, text, title, isUrgent: true };
    });
}

function lookupLines({ lookup }, us) {
  if (lookup === null) return [];
  const { broker, since_us, error } = lookup;
  const name = nodeName(broker);
  const what = error === null ? `asks ${name} for metadata` : `has no metadata from ${name}`;
  return [{ key: "lookup", text: `${what}, ${duration(us - since_us)}`, isUrgent: true }];
}

function memberLine(group, { state, since_us, generation, coordinator, partitions, reason }, us) {
  const isStable = state === "STABLE";
  const of = generation >= 0 ? `, generation ${generation}` : "";
  const since = isStable ? "" : `, ${duration(us - since_us)}`;
  const nothing = isStable && partitions.length === 0 ? ", owns nothing" : "";
  const text = `${MEMBER_WORDS.get(state) ?? state} group ${group}${of}${since}${nothing}`;
  const title = `${text}; state ${state}, coordinator ${coordinator < 0 ? "to be found" : `broker ${coordinator}`}`
    + `${reason === "" ? "" : `: ${reason}`}`;
  return { key: `group ${group}`, text, title, isUrgent: !isStable };
}

/** The last ends of a Produce: of the chosen partition, of those with an error, and of others as there is room. */
function sentLines(client, chosen) {
  const [first, ...others] = partitionsOf(client.sent, chosen);
  if (first === undefined) return [];
  const hasFailed = ({ value: { error } }) => error !== "NONE";
  return [first, ...others.filter(hasFailed), ...others.filter((each) => !hasFailed(each))]
    .slice(0, MOST_SENT)
    .map(({ name, value: { records, offset, error }, isChosen }) => {
      const last = Number.isInteger(offset) && Number.isInteger(records) ? offset + records - 1 : offset;
      const isKnown = !Number.isInteger(offset) || offset >= 0;
      const text = error === "NONE"
        ? `${name}: acknowledged${isKnown ? ` up to offset ${last}` : ""}`
        : `${name}: ${count(records, "record")} not acknowledged: ${error || "no answer"}`;
      return { key: `sent ${name}`, text, isChosen, isUrgent: error !== "NONE" };
    });
}

function readOf({ name, value, isChosen }) {
  if (value === null) {
    return { key: `reads ${name}`, text: `${name}: –`, title: `${name} is not read yet`, isUrgent: false, isChosen };
  }
  const { position, broker, error } = value;
  const isLost = error !== null || broker === "";
  const why = broker === "" ? "no leader" : error || "no answer";
  const text = `${name}: ${position < 0 ? "?" : position}${isLost ? `, ${why}` : ""}`;
  const title = `position ${position} of ${name}, ${broker === "" ? "no leader known" : `read at ${nodeName(broker)}`}`
    + `${isLost && broker !== "" ? `: ${why}` : ""}`;
  return { key: `reads ${name}`, text, title, isUrgent: isLost, isChosen };
}
