"""Another world for the same code: virtual time, a simulated ZooKeeper, network, storage and faults, all drawn from one
seed.

`loop` runs coroutines in virtual time and can kill, pause and resume a node; `zookeeper` is one logical server with the
real one's sessions, watches and lost answers; `network` carries the real bytes; `world` hands all of it to a broker;
`cluster` speaks of brokers and leaders; `faults` draws a schedule of trouble from a seed and `seeds` judges what came
of it. Kafka has no namesake. A seed is a whole history: the same seed gives the same event log, byte for byte. Imports
`understudy.checkers`, `brokers` and everything below; nothing in here asks the machine for time, randomness or a
socket.
"""
