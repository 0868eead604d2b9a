"""Kafka's requests and responses as values, one module per API, written in the words of `foundation.wire.schema`.

Facts (names, order, versions, tags, defaults) are those of Apache Kafka 3.9's message definitions. Structs inside a
message are named as there; where request and response would collide in one module, the message's name stands in front.
"""
