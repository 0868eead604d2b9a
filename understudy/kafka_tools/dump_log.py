"""`understudy dump-log`: print the segments of a log, their indexes and the snapshots of producers.

It reads the files of a broker, ours or Kafka's, and needs no cluster. Mirrors Kafka's `DumpLogSegments`.
"""

from __future__ import annotations

from pathlib import Path
from struct import Struct
from typing import Final

from understudy.foundation.records.batch import NO_SEQUENCE, BatchHeader, RecordBatch, check_crc
from understudy.foundation.records.compression import COMPRESSION_MASK
from understudy.foundation.records.errors import CorruptRecord, NotDecompressed
from understudy.foundation.records.record import Record
from understudy.kafka_tools.console import Console, Surroundings, Tool, print_uncaught
from understudy.kafka_tools.errors import INVALID_RECORD, ToolError, illegal_argument
from understudy.kafka_tools.index_dumps import (
    IndexChecks,
    IndexFindings,
    Pair,
    dump_offset_index,
    dump_producers,
    dump_time_index,
    dump_transaction_index,
)
from understudy.kafka_tools.options import Flag, Options, java_number
from understudy.kafka_tools.record_decoders import Parser, parse_offsets, parser_of
from understudy.kafka_tools.segment_files import base_offset_of, batches_in, in_file, records_in

MAX_MESSAGE_SIZE = 5 * 1024 * 1024
ALL_BYTES = 2**31 - 1
DECODER = "org.apache.kafka.tools.api.StringDecoder"
PURPOSE = (
    "This tool helps to parse a log file and dump its contents to the console, useful for debugging a seemingly "
    "corrupt log segment."
)
NOT_SUPPORTED = ("transaction-log-decoder", "cluster-metadata-decoder", "remote-log-metadata-decoder")
_CONTROL_KEY: Final = Struct(">hh")
_MARKER: Final = Struct(">hi")
_CONTROL_TYPES = (
    "ABORT",
    "COMMIT",
    "LEADER_CHANGE",
    "SNAPSHOT_HEADER",
    "SNAPSHOT_FOOTER",
    "KRAFT_VERSION",
    "KRAFT_VOTERS",
)

FLAGS = (
    Flag("files", "The files, of any kind in the folder of a partition.", "FILE,FILE,…"),
    Flag("print-data-log", "Print keys and values; implied by every decoder."),
    Flag("deep-iteration", "Print each record, not only batches; implied by --print-data-log."),
    Flag("skip-record-metadata", "Print only keys and values of the records."),
    Flag("verify-index-only", "Compare indexes with the log, and do not print their entries."),
    Flag("index-sanity-check", "Check indexes only as a broker does when it starts."),
    Flag("max-message-size", "The size of the largest batch; 5242880 by default.", "BYTES"),
    Flag("max-bytes", "Read at most this number of bytes of a log.", "BYTES"),
    Flag("key-decoder-class", f"The decoder of keys; {DECODER} by default.", "CLASS", is_optional=True),
    Flag("value-decoder-class", f"The decoder of values; {DECODER} by default.", "CLASS", is_optional=True),
    Flag("offsets-decoder", "Show the records of __consumer_offsets as JSON."),
    *(Flag(name, "Not supported.") for name in NOT_SUPPORTED),
)


async def run(options: Options, surroundings: Surroundings) -> int:
    """Run one command line of the tool, and return its exit code."""
    options.require("files")
    for name in NOT_SUPPORTED:
        if options.has(name):
            raise ToolError("java.lang.UnsupportedOperationException", f"--{name} is not supported; leave it out")
    console, findings = surroundings.console, IndexFindings()
    for name in (options.value("files") or "").split(","):
        path = Path(name)
        console.print(f"Dumping {path}")
        match _suffix(path):
            case ".log":
                _dump_log(path, options, console, findings)
            case ".index":
                dump_offset_index(path, _checks(options), console, findings)
            case ".timeindex":
                dump_time_index(path, _checks(options), console, findings)
            case ".snapshot":
                dump_producers(path, console)
            case ".txnindex":
                dump_transaction_index(path, console)
            case _:
                console.error(f"Ignoring unknown file {path}")
    findings.print(console)
    return 0


def _parser(options: Options) -> Parser | None:
    """Return what shows keys and values; None if neither is printed."""
    key, value = options.value("key-decoder-class"), options.value("value-decoder-class")
    if options.has("offsets-decoder"):
        return parse_offsets
    if options.has("print-data-log") or key is not None or value is not None:
        return parser_of(key or DECODER, value or DECODER)
    return None


def _checks(options: Options) -> IndexChecks:
    return IndexChecks(
        sanity_only=options.has("index-sanity-check"),
        is_silent=options.has("verify-index-only"),
        max_message_size=java_number(options, "max-message-size", MAX_MESSAGE_SIZE),
    )


def _suffix(path: Path) -> str:
    if "." not in path.name:
        length = len(path.name)
        raise ToolError(
            "java.lang.StringIndexOutOfBoundsException", f"Range [-1, {length}) out of bounds for length {length}"
        )
    return "." + path.name.rpartition(".")[2]


TOOL = Tool("dump-log", PURPOSE, FLAGS, run, print_uncaught)


# ---------------------------------------------------------------------- logs


def _dump_log(path: Path, options: Options, console: Console, findings: IndexFindings) -> None:
    parser, max_bytes = _parser(options), java_number(options, "max-bytes", ALL_BYTES)
    is_deep = options.has("deep-iteration") or parser is not None
    skips_metadata = options.has("skip-record-metadata")
    console.print(f"Log starting offset: {base_offset_of(path)}")
    with in_file(path) as data:
        log = data[:max_bytes]
        valid_bytes, last_offset = 0, -1
        for batch in batches_in(log, path):
            console.print(_batch_line(batch, valid_bytes))
            valid_bytes += batch.header.size
            if not is_deep:
                continue
            for record in records_in(batch):
                if last_offset not in (-1, record.offset - 1):
                    findings.gaps.setdefault(path.absolute(), []).append(Pair(last_offset, record.offset))
                last_offset = record.offset
                console.print(_record_line(batch.header, record, parser, skips_metadata=skips_metadata))
        if len(log) > valid_bytes and max_bytes == ALL_BYTES:
            console.print(f"Found {len(log) - valid_bytes} invalid bytes at the end of {path.name}")


def _batch_line(batch: RecordBatch, position: int) -> str:
    """Return the line about a batch. Raises ToolError if its codec is unknown."""
    header = batch.header
    try:
        codec = header.compression
    except NotDecompressed:
        number = header.attributes & COMPRESSION_MASK
        raise illegal_argument(f"Unknown compression type id: {number}") from None
    try:
        check_crc(batch)
    except CorruptRecord:
        is_valid = False
    else:
        is_valid = True
    horizon = header.delete_horizon_ms
    shown_horizon = "OptionalLong.empty" if horizon is None else f"OptionalLong[{horizon}]"
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.count} "
        f"baseSequence: {header.base_sequence} lastSequence: {header.last_sequence} producerId: {header.producer_id} "
        f"producerEpoch: {header.producer_epoch} partitionLeaderEpoch: {header.partition_leader_epoch} "
        f"isTransactional: {_java(header.is_transactional)} isControl: {_java(header.is_control)} "
        f"deleteHorizonMs: {shown_horizon} position: {position} {_timestamp_type(header)}: {header.max_timestamp} "
        f"size: {header.size} magic: {header.magic} compresscodec: {codec.name.lower()} "
        f"crc: {header.crc} isvalid: {_java(is_valid)}"
    )


def _record_line(header: BatchHeader, record: Record, parser: Parser | None, *, skips_metadata: bool) -> str:
    line = "|" if skips_metadata else f"| {_metadata(header, record)}"
    if parser is None or header.is_control:
        return line if not skips_metadata else ""
    shown = parser(record)
    key = "" if shown.key is None else f" key: {shown.key}"
    value = "" if shown.value is None else f" payload: {shown.value}"
    # Kafka prints the bar before the metadata or the key, and never before a value alone.
    return (line if key or not skips_metadata else "") + key + value


def _metadata(header: BatchHeader, record: Record) -> str:
    delta = record.offset - header.base_offset
    sequence = NO_SEQUENCE if header.base_sequence < 0 else (header.base_sequence + delta) & 0x7FFF_FFFF
    keys = ",".join(each.key for each in record.headers)
    line = (
        f"offset: {record.offset} {_timestamp_type(header)}: {record.timestamp} keySize: {_size(record.key)} "
        f"valueSize: {_size(record.value)} sequence: {sequence} headerKeys: [{keys}]"
    )
    return line + _control(record) if header.is_control else line


def _control(record: Record) -> str:
    """Return the text of a control record; raises ToolError if its key cannot be read."""
    key, value = record.key or b"", record.value or b""
    if len(key) < _CONTROL_KEY.size:
        raise ToolError(INVALID_RECORD, f"the key of a control record has {len(key)} bytes, not 4")
    _, number = _CONTROL_KEY.unpack_from(key)
    name = _CONTROL_TYPES[number] if 0 <= number < len(_CONTROL_TYPES) else "UNKNOWN"
    if name in ("ABORT", "COMMIT") and len(value) >= _MARKER.size:
        return f" endTxnMarker: {name} coordinatorEpoch: {_MARKER.unpack_from(value)[1]}"
    return f" controlType: {name}({number})"


def _timestamp_type(header: BatchHeader) -> str:
    return "LogAppendTime" if header.has_log_append_time else "CreateTime"


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _java(value: bool) -> str:
    return "true" if value else "false"
