-- The records of the type <RecordType>, with `us`: microseconds after the run's first record.
CREATE TEMPORARY VIEW <RecordType> AS
SELECT *,
       own_us - start_us + CAST(floor(
           segment.offset_us + (own_us - segment.from_us) / segment.length_us * segment.more_us + 0.5D
       ) AS BIGINT) AS us
FROM (
    SELECT r.*, i.start_us, element_at(filter(i.segments, s -> s.from_us <= r.own_us), -1) AS segment
    FROM (SELECT *, CAST(floor(mono_ms * 1000 + 0.5D) AS BIGINT) AS own_us FROM {<RecordType>}) r
    JOIN incarnations i ON i.run = r.run AND i.node = r.node AND i.incarnation = r.incarnation
);
