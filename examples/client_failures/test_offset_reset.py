"""A consumer asks a broker that leads no more for the offset to begin at, ten times a second for five minutes."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from understudy.testing import simulated

ORDERS = TopicPartition("orders", 0)


@simulated(seeds=2, faults="none", settings={"auto.leader.rebalance.enable": "false"})
async def test_a_position_is_reset_at_the_old_leader_until_the_metadata_is_old(cluster):
    await cluster.create_topic("orders", assignment={0: [1, 2]})
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
        await producer.send_and_wait("orders", b"first", partition=0)
        async with AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([ORDERS])
            assert (await consumer.getone()).value == b"first"
            consumer.pause(ORDERS)
            await asyncio.sleep(2)  # until its last fetch has ended

            # The leadership moves while the consumer fetches nothing, and its old leader lives on.
            old = cluster.leader("orders")
            old.pause()
            await cluster.wait_until(lambda: cluster.leader_id("orders") not in (None, old.id), "another leader")
            old.resume()
            await cluster.calm()

            consumer.resume(ORDERS)
            await consumer.seek_to_beginning(ORDERS)
            try:
                async with asyncio.timeout(120):
                    raise AssertionError(f"{await consumer.getone()} was read within two minutes")
            except TimeoutError:
                pass
            assert (await consumer.getone()).value == b"first"
