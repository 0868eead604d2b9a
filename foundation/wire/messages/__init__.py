"""Kafka's requests and responses as values, one module per API; `understudy.foundation.wire.schema` has the
annotations.

Facts (names, order, versions, tags, defaults) are from Apache Kafka 3.9's message definitions. Structs inside a message
are named as there; if request and response use one name for two structs, the message's name precedes it.
"""
