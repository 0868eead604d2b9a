-- One injected fault, or one armed point that was reached, with the failover that followed if it ended a reign.
CREATE TEMPORARY VIEW faults AS
SELECT run, us / 1000D AS at_ms, fault, target, role, ended.epoch AS ended_epoch, ended.next_epoch,
       ended.next_controller, ended.detection_us / 1000D AS detection_ms, ended.outage_us / 1000D AS outage_ms, elections
FROM (
    SELECT f.run, f.us, f.node, f.incarnation, f.seq, f.fault, f.target, f.role, f.ended, count(s.us) AS elections
    FROM (
        SELECT f.run, f.us, f.node, f.incarnation, f.seq, f.fault, f.target, f.role,
               lead(f.us) OVER (PARTITION BY f.run ORDER BY f.us, f.node, f.incarnation, f.seq) AS next_us,
               max_by(r.ended, r.reign) AS ended
        FROM injected_faults f
        LEFT JOIN (
            SELECT run, reign, fault_us, struct(
                       elected.epoch, next.epoch AS next_epoch, next.broker AS next_controller,
                       CASE WHEN next IS NOT NULL THEN noticed_us - fault_us END AS detection_us,
                       next.ready_us - fault_us AS outage_us
                   ) AS ended
            FROM (
                SELECT run, reign, elected, noticed_us, ended_us AS fault_us,
                       lead(struct(elected.epoch, elected.broker, ready.us AS ready_us)) OVER (
                           PARTITION BY run ORDER BY reign
                       ) AS next, fault
                FROM reign_times
            )
            WHERE fault IS NOT NULL
        ) r ON r.run = f.run AND r.fault_us = f.us AND f.fault NOT IN ('start', 'resume', 'continue', 'heal')
        GROUP BY f.run, f.us, f.node, f.incarnation, f.seq, f.fault, f.target, f.role
    ) f
    LEFT JOIN led_states s
      ON s.run = f.run AND s.is_election AND s.since_us >= f.us AND (f.next_us IS NULL OR s.since_us < f.next_us)
    GROUP BY f.run, f.us, f.node, f.incarnation, f.seq, f.fault, f.target, f.role, f.ended
);

-- How long each run had a controller that was ready, and the time of its first one.
CREATE TEMPORARY VIEW active_times AS
SELECT run, min(since_us) AS first_us, sum(until_us - since_us) AS active_us
FROM (
    SELECT r.run, least(r.ready.us, e.us) AS since_us,
           greatest(least(coalesce(r.ended_us, e.us), e.us), least(r.ready.us, e.us)) AS until_us
    FROM reign_times r
    JOIN run_ends e ON e.run = r.run
    WHERE r.ready.us IS NOT NULL
)
GROUP BY run;

-- A run in one row; sums are over the rows of the other tables.
CREATE TEMPORARY VIEW totals AS
SELECT i.run, i.started_ms, e.us / 1000D AS ended_at_ms, i.nodes, i.incarnations, i.records,
       coalesce(c.controllers, 0L) AS controllers, (e.us - t.first_us - t.active_us) / 1000D AS without_controller_ms,
       coalesce(p.partitions, 0L) AS partitions, coalesce(p.leaderless_us, 0L) / 1000D AS leaderless_ms,
       coalesce(p.leaderless_partitions, 0L) AS leaderless_partitions,
       coalesce(p.clean_elections, 0L) AS clean_elections, coalesce(p.unclean_elections, 0L) AS unclean_elections,
       coalesce(p.isr_shrinks, 0L) AS isr_shrinks, coalesce(p.isr_expands, 0L) AS isr_expands,
       coalesce(q.requests, 0L) AS requests, coalesce(f.fence_hits, 0L) AS fence_hits,
       coalesce(f.let_through, 0L) AS let_through
FROM (
    SELECT run, min(wall_ms) AS started_ms, count(DISTINCT node) AS nodes, count(*) AS incarnations,
           sum(records) AS records
    FROM incarnations
    GROUP BY run
) i
JOIN run_ends e ON e.run = i.run
LEFT JOIN (SELECT run, count(*) AS controllers FROM {ControllerElected} GROUP BY run) c ON c.run = i.run
LEFT JOIN active_times t ON t.run = i.run
LEFT JOIN (
    SELECT run, count(*) AS partitions, sum(leaderless_us) AS leaderless_us,
           count_if(leaderless_us > 0) AS leaderless_partitions, sum(clean_elections) AS clean_elections,
           sum(unclean_elections) AS unclean_elections, sum(isr_shrinks) AS isr_shrinks, sum(isr_expands) AS isr_expands
    FROM partition_numbers
    GROUP BY run
) p ON p.run = i.run
LEFT JOIN (SELECT run, count(*) AS requests FROM {RequestSent} GROUP BY run) q ON q.run = i.run
LEFT JOIN (
    SELECT run, count(*) AS fence_hits, count_if(switched_off) AS let_through FROM {FenceHit} GROUP BY run
) f ON f.run = i.run;
