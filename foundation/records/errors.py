"""The errors of reading records."""

from __future__ import annotations


class CorruptRecord(ValueError):
    """Bytes that are no whole batch of records, or whose checksum differs. Mirrors `CorruptRecordException`."""


class NotDecompressed(CorruptRecord):
    """Records whose codec is unknown, or which are no bytes of it. Mirrors the `KafkaException` of Kafka's streams.

    Whoever reads a log treats them as corrupt. A producer gets another error: sent again, they would be refused again.
    """


class InvalidRecord(ValueError):
    """A batch whose records contradict its header or each other. Mirrors `InvalidRecordException`."""


class UnsupportedMagic(ValueError):
    """A batch of message format 0 or 1 if one of format 2 is expected. Only producers may still send the others.

    Mirrors `UnsupportedVersionException`.
    """
