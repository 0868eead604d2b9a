"""The assignors of Kafka's consumer: which member of a group gets which partitions.

Pure functions of subscriptions and partition counts. The results are those of Kafka 3.9's `RangeAssignor`,
`RoundRobinAssignor`, `StickyAssignor` and `CooperativeStickyAssignor`, down to the choices that Kafka leaves to the
order of a Java hash table.
"""
