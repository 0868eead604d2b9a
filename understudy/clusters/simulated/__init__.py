"""The code of brokers and controllers in virtual time, on a simulated ZooKeeper, network and disk.

`loop` runs coroutines in virtual time, and kills, pauses and resumes the process of a node; `zookeeper` is one server
with the sessions, watches and lost responses of the real one; `network` carries the bytes of the real protocol; `world`
gives all of it to a broker; `cluster` is the `Cluster` that tests and commands use.

Everything random is drawn from one seed: the same seed gives the same event log, byte for byte. Nothing in this package
uses time, randomness or sockets of the machine. It imports `understudy.checks`, `brokers` and the layers below them.
Kafka has no counterpart.
"""
