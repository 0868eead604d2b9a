// Drives kafkajs as ../README.md says: an admin client and a producer, held open until standard input is closed.
//
// npm install
// node drive.mjs localhost:9092 orders
//
// kafkajs reads as a member of a group only: no partition can be assigned to its consumer, so none is driven.

import { createRequire } from "node:module";
import { setTimeout as pause } from "node:timers/promises";
import kafkajs from "kafkajs";

const SEND_EVERY_MS = 50;
const CREATE_EVERY_MS = 1_000;
const CREATE_TIMEOUT_MS = 5_000;
const FLUSH_TIMEOUT_MS = 60_000;

const [bootstrap, topic] = process.argv.slice(2);
const { version } = createRequire(import.meta.url)("kafkajs/package.json");
const kafka = new kafkajs.Kafka({ brokers: bootstrap.split(","), logLevel: kafkajs.logLevel.ERROR });
const admin = kafka.admin();
const producer = kafka.producer({ idempotent: true, allowAutoTopicCreation: false });
let stopping = false;

function emit(event, fields = {}) {
  process.stdout.write(JSON.stringify({ event, ...fields }) + "\n");
}

// One record after the other, each awaited: that is how kafkajs keeps their order.
async function produce() {
  for (let value = 0; !stopping; value++) {
    try {
      const [sent] = await producer.send({ topic, acks: -1, messages: [{ value: String(value), partition: 0 }] });
      emit("sent", { value, offset: Number(sent.baseOffset) });
    } catch (error) {
      emit("failed", { value, error: error.type ?? error.name });
    }
    await pause(SEND_EVERY_MS);
  }
}

async function createTopics() {
  for (let number = 0; !stopping; number++) {
    await pause(CREATE_EVERY_MS);
    const begun = performance.now();
    let error = null;
    try {
      const topics = [{ topic: `${topic}-admin-${number}`, numPartitions: 1, replicationFactor: 1 }];
      const created = admin.createTopics({ topics, timeout: CREATE_TIMEOUT_MS, waitForLeaders: false });
      const late = pause(CREATE_TIMEOUT_MS, "late", { ref: false });
      created.catch(() => {}); // it may fail after the attempt was given up
      if ((await Promise.race([created, late])) === "late") {
        error = "no answer";
      }
    } catch (raised) {
      error = raised.errors?.[0]?.type ?? raised.type ?? raised.name;
    }
    emit("admin", { ok: error === null, error, took_ms: Math.round(performance.now() - begun) });
  }
}

await admin.connect();
await producer.connect();
emit("ready", { client: "kafkajs", version, without: ["consumer"] });
const producing = produce();
createTopics();
process.stdin.resume();
await new Promise((resolve) => process.stdin.on("end", resolve));
stopping = true;
await Promise.race([producing, pause(FLUSH_TIMEOUT_MS)]);
await Promise.race([Promise.allSettled([producer.disconnect(), admin.disconnect()]), pause(CREATE_TIMEOUT_MS)]);
emit("end");
process.exit(0);
