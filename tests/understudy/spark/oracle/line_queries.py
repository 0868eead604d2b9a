"""The Spark SQL that finds the damage in lines of text, as `understudy.history.reading.reader` does in Python.

The views read `text`: the lines of all files, each with its file, the block of the file in which it was read (`block`)
and a number that grows within a block (`id`). These columns order the lines of a file. Line numbers are computed from
them only for findings.
"""

from __future__ import annotations

from tests.understudy.spark.oracle.schema import ENVELOPE_DDL, field_rules, rule_is_satisfied
from understudy.foundation.eventlog.records import FORMER_TYPE_NAMES, PAYLOAD_BY_TYPE, RECORD_VERSION
from understudy.history.reading import findings, lines

_UNREADABLE = "unreadable"
"""The line is not an envelope. The finding is a torn line if it is the last line of its file, else not a record."""

_TYPES = ", ".join(f"'{name}'" for name in sorted(PAYLOAD_BY_TYPE))

_FORMER_NAMES = ", ".join(f"'{former}', '{name}'" for former, name in FORMER_TYPE_NAMES.items())

_IS_ENVELOPE = f"""
    is_valid_utf8(value) AND endswith(rtrim(' \\t\\r\\n', value), '}}')
    AND e IS NOT NULL AND e.corrupt IS NULL AND e.version IS NOT NULL AND e.run IS NOT NULL
    AND e.node IS NOT NULL AND e.type IS NOT NULL AND e.data IS NOT NULL
    AND coalesce(e.incarnation BETWEEN 1 AND {lines.MAX_SEQ}, false)
    AND coalesce(e.seq BETWEEN 1 AND {lines.MAX_SEQ}, false)
    AND coalesce(e.mono_ms BETWEEN 0 AND {lines.MAX_CLOCK_MS!r}D, false)
    AND coalesce(e.wall_ms BETWEEN 0 AND {lines.MAX_CLOCK_MS!r}D, false)"""

_DATA_FITS = f"""
    coalesce(forall({field_rules()}[type], rule -> {rule_is_satisfied("rule", "fields")}), false)"""

_WRITER = "run, node, incarnation"

VIEWS: dict[str, str] = {
    "envelopes": f"""
        SELECT *, CASE WHEN NOT is_too_long THEN {_IS_ENVELOPE} END AS is_envelope
        FROM (SELECT file, block, id, value, is_too_long,
                     from_json(CASE WHEN NOT is_too_long THEN value END, '{ENVELOPE_DDL}',
                               map('columnNameOfCorruptRecord', 'corrupt')) AS e
              FROM (SELECT *, octet_length(value) > {lines.MAX_LINE_BYTES} AS is_too_long FROM text))""",
    "numbered_lines": f"""
        SELECT file, block, id,
               CASE WHEN is_too_long THEN '{findings.LINE_TOO_LONG}'
                    WHEN NOT is_envelope THEN '{_UNREADABLE}'
                    WHEN e.version <> {RECORD_VERSION} THEN '{findings.UNKNOWN_VERSION}'
                    WHEN type NOT IN ({_TYPES}) THEN '{findings.UNKNOWN_TYPE}'
                    WHEN NOT {_DATA_FITS} THEN '{findings.NOT_A_RECORD}' END AS problem,
               CASE WHEN is_too_long THEN 'more than {lines.MAX_LINE_BYTES} bytes'
                    WHEN NOT is_envelope THEN ''
                    WHEN e.version <> {RECORD_VERSION} THEN concat('version ', e.version)
                    ELSE type END AS what,
               coalesce(is_envelope, false) AS is_numbered,
               e.run, e.node, e.incarnation, e.seq, e.mono_ms
        FROM (SELECT file, block, id, is_too_long, is_envelope, CASE WHEN is_envelope THEN e END AS e,
                     CASE WHEN is_envelope THEN coalesce(map({_FORMER_NAMES})[e.type], e.type) END AS type,
                     from_json(CASE WHEN is_envelope THEN e.data END, 'map<string,string>') AS fields
              FROM envelopes)""",
    "lines": f"""
        SELECT *, CASE WHEN is_numbered AND NOT is_repeat
                       THEN seq - 1 - coalesce(lag(seq) OVER first_of_each, 0) END AS missing,
               CASE WHEN is_numbered AND NOT is_repeat
                    THEN coalesce(mono_ms < lag(mono_ms) OVER first_of_each, false) END AS clock_went_back,
               is_numbered AND NOT is_repeat AND coalesce(seq < max(seq) OVER before_in_file, false) AS is_late
        FROM (SELECT *, is_numbered AND coalesce(lag(seq) OVER in_turn = seq, false) AS is_repeat
              FROM numbered_lines
              WINDOW in_turn AS (PARTITION BY {_WRITER} ORDER BY seq, file, block, id))
        WINDOW first_of_each AS (PARTITION BY {_WRITER}, is_repeat ORDER BY seq, file, block, id),
               before_in_file AS (PARTITION BY {_WRITER}, file ORDER BY block, id
                                  ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)""",
    "files": """
        SELECT file, count(*) AS lines, max(struct(block, id)) AS last FROM lines GROUP BY file""",
    "flaws": f"""
        SELECT l.file, l.block, l.id,
               CASE WHEN problem <> '{_UNREADABLE}' THEN problem
                    WHEN struct(l.block, l.id) = f.last THEN '{findings.TORN_LINE}'
                    ELSE '{findings.NOT_A_RECORD}' END AS kind,
               what, 1L AS times
        FROM lines l JOIN files f ON f.file = l.file WHERE problem IS NOT NULL
        UNION ALL
        SELECT file, block, id, flaw.kind, concat(node, ' incarnation ', incarnation), flaw.times
        FROM (SELECT *, explode(filter(array(
                        named_struct('kind', '{findings.REPEAT}', 'times', CASE WHEN is_repeat THEN 1L ELSE 0L END),
                        named_struct('kind', '{findings.GAP}', 'times', coalesce(missing, 0L)),
                        named_struct('kind', '{findings.OUT_OF_ORDER}', 'times', CASE WHEN is_late THEN 1L ELSE 0L END),
                        named_struct('kind', '{findings.CLOCK_WENT_BACK}', 'times', CASE WHEN clock_went_back
                                                                                  THEN 1L ELSE 0L END)),
                     flaw -> flaw.times > 0)) AS flaw
              FROM lines WHERE is_numbered)""",
    "flaws_by_file": """
        SELECT file, kind, what, sum(times) AS times, min(struct(block, id)) AS first
        FROM flaws GROUP BY file, kind, what""",
    "findings": """
        SELECT f.file, count(*) AS line, f.kind, f.what, first(f.times) AS times
        FROM flaws_by_file f JOIN lines l ON l.file = f.file AND struct(l.block, l.id) <= f.first
        GROUP BY f.file, f.kind, f.what""",
}
"""The SQL of each view, after those that it reads. `files` and `findings` are the results."""

KEPT_VIEWS = ("lines", "flaws_by_file")
"""The views that are computed only once, because several others read them."""
