"""Clusters that one can act on: the same operations on processes, in containers and in the simulator.

`cluster` has the protocols. `processes` runs brokers on this machine, `containers` in a compose project, `simulated` in
virtual time. `control` takes verbs for a running cluster, `clients` are producers, consumers and an admin client,
`testing` is what tests of a Kafka client use. `picture` and `findings` describe the state of a cluster. May import
`checks`, `history` and the layers below them.
"""
