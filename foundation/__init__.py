"""What a broker stands on.

Four rooms: `cluster` (the nouns), `eventlog` (what happened), `wire` (Kafka's protocol) and `zk` (ZooKeeper as Kafka
uses it). Nothing here knows a broker or a controller; only `zk.kazoo_client` touches the outside world.
"""
