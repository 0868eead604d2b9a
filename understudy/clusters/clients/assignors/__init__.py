"""The assignors of Kafka's consumer: which member of a group gets which partitions.

They are pure functions of subscriptions and partition counts. They return the same assignments as Kafka 3.9's
`RangeAssignor`, `RoundRobinAssignor`, `StickyAssignor` and `CooperativeStickyAssignor`, even if Kafka's choice depends
on the order of a Java hash table.
"""
