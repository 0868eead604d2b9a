// Is a member of a group with kafkajs as ../README.md says, until standard input is closed.
//
// npm install
// node member.mjs localhost:9092 orders readers

import { createRequire } from "node:module";
import { setTimeout as pause } from "node:timers/promises";
import kafkajs from "kafkajs";

const CLOSE_TIMEOUT_MS = 10_000;

const [bootstrap, topic, groupId] = process.argv.slice(2);
const { version } = createRequire(import.meta.url)("kafkajs/package.json");
const kafka = new kafkajs.Kafka({ brokers: bootstrap.split(","), logLevel: kafkajs.logLevel.ERROR });
const consumer = kafka.consumer({ groupId });

function emit(event, fields = {}) {
  process.stdout.write(JSON.stringify({ event, ...fields }) + "\n");
}

consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
  emit("assigned", { partitions: [...(payload.memberAssignment[topic] ?? [])].sort((one, other) => one - other) });
});
consumer.on(consumer.events.REBALANCING, () => emit("revoked", { partitions: [] }));
consumer.on(consumer.events.CRASH, ({ payload }) => {
  emit("error", { error: payload.error.type ?? payload.error.name });
});

await consumer.connect();
await consumer.subscribe({ topic, fromBeginning: true });
emit("ready", { client: "kafkajs", version });
await consumer.run({
  eachMessage: async ({ partition, message }) => {
    emit("read", { value: Number(message.value), offset: Number(message.offset), partition });
  },
});
process.stdin.resume();
await new Promise((resolve) => process.stdin.on("end", resolve));
await Promise.race([consumer.disconnect(), pause(CLOSE_TIMEOUT_MS)]);
emit("end");
process.exit(0);
