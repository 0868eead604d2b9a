"""The code of brokers and controllers in virtual time, on a simulated ZooKeeper, network and disk.

`loop` runs coroutines in virtual time, and kills, pauses and resumes the process of a node; `zookeeper` is one server
with the sessions, watches and lost responses of the real one; `network` carries the bytes of the real protocol; `world`
gives all of it to a broker; `cluster` is the `Cluster` that tests and commands use.

Everything random is drawn from one seed: the same seed gives the same event log, byte for byte. Nothing in this package
asks the machine for time, randomness or a socket. It imports `understudy.checks`, `brokers` and what is below them.
Kafka has no counterpart.
"""
