// Understudy in place of cp-kafka in @testcontainers/kafka: one broker, and three of which the controller is killed.
//
//   docker tag understudy understudy:7.9.0       # the module compares the tag with versions of cp-kafka
//   npm install && UNDERSTUDY_IMAGE=understudy:7.9.0 npm test

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { KafkaContainer } from "@testcontainers/kafka";
import { Kafka, logLevel } from "kafkajs";
import { GenericContainer, getContainerRuntimeClient, Network } from "testcontainers";

const IMAGE = process.env.UNDERSTUDY_IMAGE ?? "understudy:7.9.0";
const TOPIC = "orders";

const address = (container) => `${container.getHost()}:${container.getMappedPort(9093)}`;

// Runs `use` with a client of the brokers.
async function connected(client, use) {
  await client.connect();
  try {
    return await use(client);
  } finally {
    await client.disconnect();
  }
}

// Produces before and after an event, and reads both records with a group.
async function goesOn(brokers, replicas, happen) {
  const kafka = new Kafka({ brokers, logLevel: logLevel.NOTHING, retry: { retries: 20 } });
  await connected(kafka.admin(), (admin) =>
    admin.createTopics({ topics: [{ topic: TOPIC, numPartitions: 1, replicationFactor: replicas }], waitForLeaders: true }),
  );
  await connected(kafka.producer(), async (producer) => {
    await producer.send({ topic: TOPIC, acks: -1, messages: [{ value: "before" }] });
    await happen(kafka);
    await producer.send({ topic: TOPIC, acks: -1, messages: [{ value: "after" }] });
  });
  const values = [];
  await connected(kafka.consumer({ groupId: "readers" }), async (consumer) => {
    await consumer.subscribe({ topic: TOPIC, fromBeginning: true });
    await consumer.run({ eachMessage: async ({ message }) => values.push(message.value.toString()) });
    for (const end = Date.now() + 60_000; values.length < 2 && Date.now() < end; ) await sleep(100);
  });
  assert.deepEqual(values, ["before", "after"]);
}

// The id of the controller, as soon as it is another broker than `before`.
async function controller(kafka, before) {
  return connected(kafka.admin(), async (admin) => {
    for (const end = Date.now() + 60_000; Date.now() < end; await sleep(200)) {
      const found = (await admin.describeCluster()).controller;
      if (found !== null && found !== -1 && found !== before) return found;
    }
    throw new Error(`no controller other than ${before} within a minute`);
  });
}

for (const [mode, chosen] of [
  ["its own ZooKeeper", (container) => container],
  ["KRaft", (container) => container.withKraft()],
]) {
  test(`one container with ${mode}`, async () => {
    const container = await chosen(new KafkaContainer(IMAGE)).start();
    try {
      await goesOn([address(container)], 1, async () => {});
    } finally {
      await container.stop();
    }
  });
}

test("three containers continue when the controller is killed", async () => {
  const network = await new Network().start();
  const started = [];
  try {
    started.push(
      await new GenericContainer(IMAGE)
        .withNetwork(network)
        .withNetworkAliases("zookeeper")
        .withEnvironment({ ZOOKEEPER_CLIENT_PORT: "2181" })
        .start(),
    );
    const brokers = new Map();
    for (const id of [1, 2, 3]) {
      const container = await new KafkaContainer(IMAGE)
        .withNetwork(network)
        .withZooKeeper("zookeeper", 2181)
        .withEnvironment({ KAFKA_BROKER_ID: String(id), KAFKA_ZOOKEEPER_SESSION_TIMEOUT_MS: "6000" })
        .start();
      started.push(container);
      brokers.set(id, container);
    }
    await goesOn([...brokers.values()].map(address), 3, async (kafka) => {
      const killed = await controller(kafka);
      const runtime = await getContainerRuntimeClient();
      await runtime.container.getById(brokers.get(killed).getId()).kill();
      assert.notEqual(await controller(kafka, killed), killed);
    });
  } finally {
    for (const container of started.reverse()) await container.stop().catch(() => {});
    await network.stop();
  }
});
