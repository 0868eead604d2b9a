"""Kafka's wire protocol: bytes to messages and back.

Declarative message classes (`messages/`), a codec compiled from them on first use, frames, headers, the `Network` port
and the request channel that speaks over it. Mirrors `org.apache.kafka.common.protocol` and `common.message`.
Opens no socket. Imports `cluster`, msgspec and the standard library.
"""
