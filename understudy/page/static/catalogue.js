/** What the timeline, the story and the chains of causes look up: collected once, as records come. */

/** Columns of a record array. */
export const [US, NODE, INCARNATION, SEQ, TYPE, CAUSE, ZXID, EPOCH, DATA, WORDS, LINK] = Array(11).keys();

const LIVES = new Map([
  ["kill", "dead"],
  ["crash", "dead"],
  ["power_loss", "dead"],
  ["pause", "paused"],
  ["resume", "running"],
  ["continue", "running"],  // as older runs call it
  ["stop", "stopping"],
]);

const REPAIRS = new Set(["resume", "continue", "correct-clock", "heal", "heal-disk", "start"]);

/** As in `foundation.eventlog.fences`: a follower meets these after each change of a leader. */
const ROUTINE_FENCES = new Set(["broker.fetch-leader-epoch"]);

/** The outcomes of a write that need no sentence among the decisions: what the writer does next has its own. */
const ROUTINE_OUTCOMES = new Set(["Ok", "NoNode", "NodeExists"]);

/** How much the story tells: what decides, with the steps between, with the records of clients. */
export const DETAILS = ["decisions", "steps", "everything"];
const STEPS = new Set([
  "ChannelClosed", "ChannelOpened", "ConnectionRefused", "EventEnded", "EventPreempted", "EventQueued", "EventStarted",
  "GroupsLoaded", "GroupsUnloaded", "LogCleaned", "LogOpened", "MemberTransition", "PartitionsMoved", "ReplicasMoved",
  "RequestQueued", "RequestReceived", "ResponseSent", "RunDescribed", "StillRunning", "ZkWrite",
]);
const OF_CLIENTS = new Set([
  "ClientConnection", "ClientRequestBegan", "HighWatermarkChanged", "LeaderStarted", "OffsetsCommitted",
  "OffsetsRemoved", "RecordsAcknowledged", "RecordsAppended",
]);

/**
 * The catalogue of a run.
 *
 * Attributes:
 *   detail: one of `DETAILS`.
 *   lanes: what the strips show; each is a list ordered by time.
 *   hasLogs: whether a broker has recorded what its replicas have (`understudy.events.logs`).
 */
export class Catalogue {
  constructor() {
    this.length = 0;
    this.detail = DETAILS[0];
    this._stories = new Map(DETAILS.map((detail) => [detail, new Numbers()]));
    this.lanes = { reigns: [], faults: [], fences: [], lives: new Map(), leaderless: [] };
    this.first = 0;
    this.last = 0;
    this._writers = new Map();
    /** The targets that had a fault, or its end. */
    this._targets = new Set();
    /** The numbers of the records with words, by user's process. */
    this._sentences = new Map();
    this.hasLogs = false;
    this._leaderless = new Set();
    this._ledBy = new Map();
  }

  /** Add the next record. */
  add(record) {
    const n = this.length;
    this.length += 1;
    if (n === 0) {
      this.first = record[US];
    }
    this.last = Math.max(this.last, record[US]);
    const writer = this._writer(record[NODE], record[INCARNATION]);
    if (writer.length === 0) {
      this._live(record[US], record[NODE], "running");
    }
    writer.set(record[SEQ], n);
    this.hasLogs ||= record[TYPE] === "LogOpened";
    if (record[WORDS] !== null) {
      this._sentencesOf(record)?.push(n);
      for (const detail of DETAILS.slice(DETAILS.indexOf(detailOf(record)))) {
        this._stories.get(detail).push(n);
      }
    }
    this._addToLanes(record, n);
  }

  /** How many incarnations of nodes have records. */
  get incarnations() {
    return this._writers.size;
  }

  /** Numbers of the records that the story tells, ascending. */
  get story() {
    return this._stories.get(this.detail);
  }

  /** Numbers of the records of a user's process that have words, ascending. */
  sentencesOf(node) {
    return this._sentences.get(node) ?? new Numbers();
  }

  /** As `sentencesOf`, by the node that has written `record`; undefined for one that is no process of a user. */
  _sentencesOf(record) {
    const node = record[NODE];
    if (record[TYPE] === "ProcessStarted" && record[DATA].role === "client" && !this._sentences.has(node)) {
      this._sentences.set(node, new Numbers());
    }
    return this._sentences.get(node);
  }

  /** The number of a record by its writer and sequence number; -1 where the run has none. */
  numberOf(node, incarnation, seq) {
    return this._writers.get(`${incarnation} ${node}`)?.get(seq) ?? -1;
  }

  /** The numbers of the record that led to `record` and of those before it, nearest first, at most 20. */
  causes(record, recordAt) {
    const chain = [];
    const seen = new Set();
    let current = record;
    while (chain.length < 20) {
      const link = current[LINK];
      const n = link !== null
        ? this.numberOf(link[0], link[1], link[2])
        : current[CAUSE] === null ? -1 : this.numberOf(current[NODE], current[INCARNATION], current[CAUSE]);
      if (n < 0 || seen.has(n)) {
        return chain;
      }
      seen.add(n);
      chain.push(n);
      current = recordAt(n);
    }
    return chain;
  }

  _writer(node, incarnation) {
    const name = `${incarnation} ${node}`;
    let found = this._writers.get(name);
    if (found === undefined) {
      found = new Sequence();
      this._writers.set(name, found);
    }
    return found;
  }

  _addToLanes(record, n) {
    const us = record[US];
    const data = record[DATA];
    switch (record[TYPE]) {
      case "ControllerElected":
        this._endReign(us);
        this.lanes.reigns.push({ us, n, end: null, node: record[NODE], epoch: data.epoch, ready: null });
        break;
      case "ControllerReady":
        this._reign(data.epoch, (reign) => { reign.ready ??= us; });
        break;
      case "ControllerResigned":
        this._reign(data.epoch, (reign) => { reign.end ??= us; });
        break;
      case "FaultInjected":
        this._fault(us, n, data);
        this._live(us, data.target, LIVES.get(data.fault));
        this._serves(us, data.target, LIVES.get(data.fault));
        break;
      case "PointReached":
        this.lanes.faults.push({ us, n, text: `${data.action} ${record[NODE]} at ${data.point}`, isQuiet: false });
        this._live(us, record[NODE], LIVES.get(data.action));
        this._serves(us, record[NODE], LIVES.get(data.action));
        break;
      case "AnswerInjected":
        this.lanes.faults.push({ us, n, text: `${record[NODE]} ${answerText(data)}`, isQuiet: false });
        break;
      case "FenceHit":
        this.lanes.fences.push({ us, n, text: fenceText(data), isQuiet: isRoutineFence(data) });
        break;
      case "ProcessExiting":
        this._live(us, record[NODE], "dead");
        this._serves(us, record[NODE], "dead");
        break;
      case "LeadershipWritten":
      case "ContextLoaded":
        this._leaderships(us, data.partitions);
        break;
      case "TopicsChanged":
        this._deleted(us, data.deleted);
        break;
    }
  }

  /** The first start of a node is no fault, and ends none. */
  _fault(us, n, { fault, target }) {
    if (fault !== "start" || this._targets.has(target) || this.lanes.lives.has(target)) {
      this.lanes.faults.push({ us, n, text: `${fault} ${target}`, isQuiet: REPAIRS.has(fault) });
    }
    this._targets.add(target);
  }

  _endReign(us) {
    const before = this.lanes.reigns.at(-1);
    if (before !== undefined) {
      before.end ??= us;
    }
  }

  _reign(epoch, change) {
    const found = this.lanes.reigns.findLast((reign) => reign.epoch === epoch);
    if (found !== undefined) {
      change(found);
    }
  }

  _live(us, node, life) {
    if (life === undefined || !/^broker-\d+$/.test(node)) {
      return;
    }
    const lane = this.lanes.lives.get(node) ?? [];
    this.lanes.lives.set(node, lane);
    if (lane.at(-1)?.life !== life) {
      lane.push({ us, life });
    }
  }

  /** A partition is leaderless while its leader's process is dead or paused, until another leader is written. */
  _serves(us, node, life) {
    const led = this._ledBy.get(Number(/^broker-(\d+)$/.exec(node)?.[1] ?? -1));
    if (led === undefined || life === undefined || life === "stopping") {
      return;
    }
    for (const partition of led) {
      this._leaderless[life === "running" ? "delete" : "add"](partition);
    }
    this._count(us);
  }

  _leaderships(us, states) {
    for (const [topic, partition, leader] of states) {
      const name = `${partition} ${topic}`;
      for (const led of this._ledBy.values()) {
        led.delete(name);
      }
      if (leader < 0) {
        this._leaderless.add(name);
      } else {
        this._leaderless.delete(name);
        if (!this._ledBy.has(leader)) {
          this._ledBy.set(leader, new Set());
        }
        this._ledBy.get(leader).add(name);
      }
    }
    this._count(us);
  }

  _deleted(us, topics) {
    const gone = new Set(topics);
    const isGone = (name) => gone.has(name.slice(name.indexOf(" ") + 1));
    for (const names of [this._leaderless, ...this._ledBy.values()]) {
      for (const name of [...names.keys()].filter(isGone)) {
        names.delete(name);
      }
    }
    this._count(us);
  }

  _count(us) {
    const lane = this.lanes.leaderless;
    if ((lane.at(-1)?.count ?? 0) !== this._leaderless.size) {
      lane.push({ us, count: this._leaderless.size });
    }
  }
}

function detailOf(record) {
  const type = record[TYPE];
  const data = record[DATA];
  const isRoutine = type === "ResponseReceived" && data.error === "NONE" && data.refused_count === 0
    || type === "ZkWriteDone" && ROUTINE_OUTCOMES.has(data.outcome)
    || type === "FenceHit" && isRoutineFence(data)
    || type === "RequestSent" && data.api === "UpdateMetadata"
    || type === "ClientRequestEnded" && (data.is_sent_again || data.api === "Fetch");
  const isOfClients = OF_CLIENTS.has(type)
    || type === "ClientRequestEnded" && (data.error === "NONE" || data.api === "Metadata");
  return isOfClients ? DETAILS[2] : STEPS.has(type) || isRoutine ? DETAILS[1] : DETAILS[0];
}

/** Whether the payload of a `FenceHit` is part of a normal change of a leader; one that is switched off never is. */
export function isRoutineFence(data) {
  return ROUTINE_FENCES.has(data.fence) && !data.switched_off;
}

export function answerText(data) {
  return `answers ${data.api} with ${data.error}, as it was armed to do`;
}

function fenceText(data) {
  if (data.switched_off) {
    return `${data.fence} is off: lets pass ${data.what}`;
  }
  return isRoutineFence(data) ? `${data.what}: old leader epoch, normal` : `${data.fence} refuses ${data.what}`;
}

/** A list of whole numbers that takes four bytes for each. */
export class Numbers {
  constructor() {
    this.length = 0;
    this._values = new Uint32Array(256);
  }

  push(value) {
    if (this.length === this._values.length) {
      const larger = new Uint32Array(2 * this.length);
      larger.set(this._values);
      this._values = larger;
    }
    this._values[this.length] = value;
    this.length += 1;
  }

  at(index) {
    return this._values[index];
  }

  /** How many values are below `value`; the values ascend. */
  countBelow(value) {
    let [low, high] = [0, this.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this._values[middle] < value) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
}

/** The record numbers of one writer by sequence number, which has gaps only where a log is damaged. */
class Sequence {
  constructor() {
    this._numbers = new Numbers();
    this._odd = new Map();
  }

  get length() {
    return this._numbers.length + this._odd.size;
  }

  set(seq, n) {
    if (seq === this._numbers.length + 1) {
      this._numbers.push(n);
    } else {
      this._odd.set(seq, n);
    }
  }

  get(seq) {
    return seq >= 1 && seq <= this._numbers.length ? this._numbers.at(seq - 1) : this._odd.get(seq);
  }
}

/** The controller epoch of a record: that of the controller it is about, else the newest that its writer had seen. */
export function epochOf(record) {
  return record[DATA].request_controller_epoch ?? record[DATA].controller_epoch ?? record[DATA].epoch ?? record[EPOCH];
}

/** The partition that a record is about, as [topic, number as text]; null for none, and for internal topics. */
export function partitionOf(record) {
  const data = record[DATA];
  const listed = [data.partitions, data.leaders, data.followers].find((each) => Array.isArray(each) && each.length > 0);
  const found = typeof data.topic === "string" && Number.isInteger(data.partition)
    ? [[data.topic, data.partition]] : listed ?? [];
  const first = found.find(([topic, number]) => !isInternal(topic) && Number.isInteger(number) && number >= 0);
  return first === undefined ? null : [first[0], String(first[1])];
}

/** Whether a topic is one that brokers keep for themselves. */
export function isInternal(topic) {
  return topic.startsWith("__");
}
