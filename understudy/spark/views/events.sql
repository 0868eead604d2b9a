-- Each step of a controller event: that it was queued, started, ended or preempted.
CREATE TEMPORARY VIEW event_steps AS
SELECT run, us, seq, node, incarnation, event_id, event, controller_epoch, 'queued' AS step,
       CAST(NULL AS DOUBLE) AS ms, '' AS outcome
FROM EventQueued
UNION ALL
SELECT run, us, seq, node, incarnation, event_id, event, controller_epoch, 'started', queued_ms, '' FROM EventStarted
UNION ALL
SELECT run, us, seq, node, incarnation, event_id, event, controller_epoch, 'ended', took_ms, outcome FROM EventEnded
UNION ALL
SELECT run, us, seq, node, incarnation, event_id, event, controller_epoch, 'preempted', NULL, '' FROM EventPreempted;

-- One kind of controller event. Percentiles are nearest rank.
CREATE TEMPORARY VIEW events AS
SELECT run, event, count_if(step = 'queued') AS queued, count_if(step = 'started') AS started,
       count_if(step = 'ended') AS ended, count_if(step = 'preempted') AS preempted,
       count_if(step = 'ended' AND outcome <> 'done') AS not_done,
       max(CASE WHEN step = 'started' AND place = (50 * n + 99) DIV 100 THEN took_us END) / 1000D AS queued_p50_ms,
       max(CASE WHEN step = 'started' AND place = (99 * n + 99) DIV 100 THEN took_us END) / 1000D AS queued_p99_ms,
       max(CASE WHEN step = 'ended' AND place = (50 * n + 99) DIV 100 THEN took_us END) / 1000D AS took_p50_ms,
       max(CASE WHEN step = 'ended' AND place = (99 * n + 99) DIV 100 THEN took_us END) / 1000D AS took_p99_ms,
       max(CASE WHEN step = 'ended' THEN took_us END) / 1000D AS took_max_ms
FROM (
    SELECT run, event, step, outcome, took_us,
           row_number() OVER (PARTITION BY run, event, step ORDER BY took_us) AS place,
           count(*) OVER (PARTITION BY run, event, step) AS n
    FROM (
        SELECT run, event, step, outcome, CAST(floor(ms * 1000 + 0.5D) AS BIGINT) AS took_us FROM event_steps
    )
)
GROUP BY run, event;

-- One controller event, with the first record of each of its steps.
CREATE TEMPORARY VIEW event_log AS
SELECT run, node, incarnation, event_id,
       coalesce(queued.event, started.event, ended.event, preempted.event) AS event,
       coalesce(queued.controller_epoch, started.controller_epoch, ended.controller_epoch, preempted.controller_epoch)
           AS controller_epoch,
       queued.us / 1000D AS queued_at_ms, started.us / 1000D AS started_at_ms, ended.us / 1000D AS ended_at_ms,
       preempted.us / 1000D AS preempted_at_ms, started.ms AS queued_ms, ended.ms AS took_ms,
       coalesce(ended.outcome, '') AS outcome
FROM (
    SELECT run, node, incarnation, event_id,
           min_by(entry, place) FILTER (WHERE step = 'queued') AS queued,
           min_by(entry, place) FILTER (WHERE step = 'started') AS started,
           min_by(entry, place) FILTER (WHERE step = 'ended') AS ended,
           min_by(entry, place) FILTER (WHERE step = 'preempted') AS preempted
    FROM (
        SELECT run, node, incarnation, event_id, step, struct(us, event, controller_epoch, ms, outcome) AS entry,
               struct(us, seq) AS place
        FROM event_steps
    )
    GROUP BY run, node, incarnation, event_id
);

-- A fault, an armed point that was reached, or a step of the scenario.
CREATE TEMPORARY VIEW moments AS
SELECT run, us / 1000D AS at_ms, 'fault' AS kind, fault AS what, target, role AS note FROM FaultInjected
UNION ALL
SELECT run, us / 1000D, 'point', action, node, point FROM PointReached
UNION ALL
SELECT run, us / 1000D, 'step', step, '', note FROM StepReached;
