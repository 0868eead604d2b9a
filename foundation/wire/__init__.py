"""Kafka's wire protocol: encodes and decodes its messages.

Message classes (`messages/`), a codec compiled from them on first use, frames, headers, the `Network` port and a
request channel over it. Mirrors `org.apache.kafka.common.protocol` and `common.message`. Opens no socket. Imports
`cluster`, msgspec and the standard library.
"""
