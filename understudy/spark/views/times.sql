-- The alignment of each incarnation's clock, as segments in the order of its clock. From `from_us` of its clock on, the
-- clock plus `offset_us` is the time by the run's reference clock; over the next `length_us` the offset grows evenly by
-- `more_us`. The first segment is the time before the first point. All are microseconds.
CREATE TEMPORARY VIEW clock_segments AS
SELECT run, node, incarnation,
       concat(
           array(named_struct('from_us', -1L, 'offset_us', min_by(offset_us, from_us), 'length_us', 1L, 'more_us', 0L)),
           sort_array(collect_list(struct(from_us, offset_us, length_us, more_us)))
       ) AS segments
FROM (
    SELECT run, node, incarnation, from_us, offset_us,
           coalesce((lead(from_us) OVER clock) - from_us, 1L) AS length_us,
           coalesce((lead(offset_us) OVER clock) - offset_us, 0L) AS more_us
    FROM (
        SELECT run, node, incarnation,
               CAST(floor(mono_ms * 1000 + 0.5D) AS BIGINT) AS from_us,
               CAST(floor(offset_ms * 1000 + 0.5D) AS BIGINT) AS offset_us
        FROM {clocks}
    )
    WINDOW clock AS (PARTITION BY run, node, incarnation ORDER BY from_us)
)
GROUP BY run, node, incarnation;

-- The records of all types, with `clock_us`: the time of a record by the run's reference clock, in microseconds. A clock
-- without an alignment is taken for the reference clock.
CREATE TEMPORARY VIEW clocked_records AS
SELECT run, node, incarnation, wall_ms, segments,
       own_us + CAST(floor(
           segment.offset_us + (own_us - segment.from_us) / segment.length_us * segment.more_us + 0.5D
       ) AS BIGINT) AS clock_us
FROM (
    SELECT run, node, incarnation, wall_ms, own_us, segments,
           element_at(filter(segments, s -> s.from_us <= own_us), -1) AS segment
    FROM (
        SELECT r.run, r.node, r.incarnation, r.wall_ms,
               CAST(floor(r.mono_ms * 1000 + 0.5D) AS BIGINT) AS own_us,
               coalesce(
                   c.segments,
                   array(named_struct('from_us', -1L, 'offset_us', 0L, 'length_us', 1L, 'more_us', 0L))
               ) AS segments
        FROM {records} r
        LEFT JOIN clock_segments c ON c.run = r.run AND c.node = r.node AND c.incarnation = r.incarnation
    )
);

-- Each incarnation of a node that left a record: how many records, the time `last_us` of the last one, the smallest
-- wall clock, the alignment of its clock, and `start_us`, the time of the run's first record by the reference clock.
CREATE TEMPORARY VIEW incarnations AS
SELECT run, node, incarnation, segments, records, wall_ms, start_us, last_clock_us - start_us AS last_us
FROM (
    SELECT run, node, incarnation, segments, records, wall_ms, last_clock_us,
           min(first_clock_us) OVER (PARTITION BY run) AS start_us
    FROM (
        SELECT run, node, incarnation, any_value(segments) AS segments, count(*) AS records, min(wall_ms) AS wall_ms,
               min(clock_us) AS first_clock_us, max(clock_us) AS last_clock_us
        FROM clocked_records
        GROUP BY run, node, incarnation
    )
);

-- The records of all types, with `us`: microseconds after the run's first record.
CREATE TEMPORARY VIEW records AS
SELECT run, node, incarnation, seq,
       own_us - start_us + CAST(floor(
           segment.offset_us + (own_us - segment.from_us) / segment.length_us * segment.more_us + 0.5D
       ) AS BIGINT) AS us
FROM (
    SELECT r.run, r.node, r.incarnation, r.seq, r.own_us, i.start_us,
           element_at(filter(i.segments, s -> s.from_us <= r.own_us), -1) AS segment
    FROM (
        SELECT run, node, incarnation, seq, CAST(floor(mono_ms * 1000 + 0.5D) AS BIGINT) AS own_us FROM {records}
    ) r
    JOIN incarnations i ON i.run = r.run AND i.node = r.node AND i.incarnation = r.incarnation
);
