"""Values: brokers, partitions, assignments, leadership, error codes.

They have no behaviour of their own. Mirrors the small case classes of Kafka's `kafka.cluster`, `kafka.api` and
`org.apache.kafka.common`. Imports the standard library and nothing else.
"""
