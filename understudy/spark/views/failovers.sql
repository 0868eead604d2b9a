-- Each reign that followed another, as `n`, with the reign before it, as `b`.
CREATE TEMPORARY VIEW successions AS
SELECT run, reign, n, b
FROM (
    SELECT run, reign, n, lag(n) OVER (PARTITION BY run ORDER BY reign) AS b
    FROM (
        SELECT run, reign, struct(elected, fault, noticed_us, noticed_by, ended_us, ended_by, ready) AS n
        FROM reign_times
    )
)
WHERE b IS NOT NULL;

-- Successions with the requests of the new controller's takeover: their number, how many answers, and the last one.
CREATE TEMPORARY VIEW successions_with_requests AS
SELECT f.run, f.reign, any_value(f.n) AS n, any_value(f.b) AS b, count_if(s.attempt = 1) AS requests,
       sum(coalesce(s.answers, 0)) AS answers, max(s.last_answer_us) AS last_answer_us
FROM successions f
LEFT JOIN sent_requests s
  ON s.run = f.run AND s.node = f.n.elected.node AND s.incarnation = f.n.elected.incarnation
 AND s.cause = f.n.elected.cause AND s.controller_epoch = f.n.elected.epoch
GROUP BY f.run, f.reign;

-- Successions with the time at which the new controller had read the cluster's state.
CREATE TEMPORARY VIEW successions_with_readings AS
SELECT f.run, f.reign, any_value(f.n) AS n, any_value(f.b) AS b, any_value(f.requests) AS requests,
       any_value(f.answers) AS answers, any_value(f.last_answer_us) AS last_answer_us, min(l.us) AS loaded_us
FROM successions_with_requests f
LEFT JOIN ContextLoaded l
  ON l.run = f.run AND l.node = f.n.elected.node AND l.incarnation = f.n.elected.incarnation
 AND l.us <= f.n.ready.us AND struct(l.us, l.seq) > struct(f.n.elected.us, f.n.elected.seq)
GROUP BY f.run, f.reign;

-- Each write to ZooKeeper, with the time at which it was done.
CREATE TEMPORARY VIEW zk_writes AS
SELECT w.run, w.us, w.node, w.incarnation, w.seq, w.cause, min(d.us) AS done_us
FROM ZkWrite w
LEFT JOIN ZkWriteDone d ON d.run = w.run AND d.node = w.node AND d.incarnation = w.incarnation AND d.cause = w.seq
GROUP BY w.run, w.us, w.node, w.incarnation, w.seq, w.cause;

-- Successions with the time of the takeover, after reading, in which at least one write awaited ZooKeeper.
CREATE TEMPORARY VIEW successions_with_writings AS
SELECT run, reign, any_value(n) AS n, any_value(b) AS b, any_value(requests) AS requests, any_value(answers) AS answers,
       any_value(last_answer_us) AS last_answer_us, any_value(loaded_us) AS loaded_us,
       coalesce(sum(greatest(until_us - greatest(since_us, coalesce(covered_us, since_us)), 0L)), 0L) AS writing_us
FROM (
    SELECT run, reign, n, b, requests, answers, last_answer_us, loaded_us, since_us, until_us,
           max(until_us) OVER (PARTITION BY run, reign ORDER BY since_us, until_us, seq
                               ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS covered_us
    FROM (
        SELECT f.run, f.reign, f.n, f.b, f.requests, f.answers, f.last_answer_us, f.loaded_us, w.seq,
               CASE WHEN w.us IS NOT NULL THEN greatest(w.us, f.loaded_us) END AS since_us,
               CASE WHEN w.us IS NOT NULL THEN least(w.done_us, f.n.ready.us) END AS until_us
        FROM successions_with_readings f
        LEFT JOIN zk_writes w
          ON w.run = f.run AND w.node = f.n.elected.node AND w.incarnation = f.n.elected.incarnation
         AND w.cause = f.n.elected.cause AND f.loaded_us IS NOT NULL
    )
)
GROUP BY run, reign;

-- The change from one controller to the next. Writing and deciding are unknown if the writes of the new controller's
-- incarnation are not on record, or cannot be distinguished because its election has no cause.
CREATE TEMPORARY VIEW failovers AS
SELECT f.run, f.n.elected.epoch, f.n.elected.broker, f.b.elected.epoch AS previous_epoch,
       f.b.elected.broker AS previous_broker, f.b.ended_by AS cause, f.b.fault IS NOT NULL AS by_fault,
       coalesce(f.b.noticed_by, '') AS noticed_by,
       f.b.ended_us / 1000D AS lost_at_ms,
       (f.b.noticed_us - f.b.ended_us) / 1000D AS detection_ms,
       (f.n.elected.us - f.b.noticed_us) / 1000D AS election_ms,
       (f.n.ready.us - f.n.elected.us) / 1000D AS takeover_ms,
       (f.loaded_us - f.n.elected.us) / 1000D AS reading_ms,
       CASE WHEN f.n.elected.cause IS NOT NULL AND w.node IS NOT NULL
            THEN (f.n.ready.us - f.loaded_us - f.writing_us) / 1000D END AS deciding_ms,
       CASE WHEN f.n.elected.cause IS NOT NULL AND w.node IS NOT NULL AND f.loaded_us IS NOT NULL
            THEN f.writing_us / 1000D END AS writing_ms,
       CASE WHEN f.last_answer_us IS NOT NULL AND f.n.ready.us IS NOT NULL
            THEN greatest(f.last_answer_us - f.n.ready.us, 0L) / 1000D END AS propagation_ms,
       (f.n.ready.us - f.b.ended_us) / 1000D AS outage_ms,
       CASE WHEN f.n.elected.cause IS NOT NULL THEN f.requests END AS requests,
       CASE WHEN f.n.elected.cause IS NOT NULL THEN f.requests - f.answers END AS unanswered,
       CASE WHEN f.n.ready.us IS NOT NULL THEN CAST(size(f.n.ready.brokers) AS BIGINT) END AS brokers,
       CASE WHEN f.n.ready.partitions >= 0 THEN f.n.ready.partitions END AS partitions
FROM successions_with_writings f
LEFT JOIN (SELECT DISTINCT run, node, incarnation FROM {ZkWrite}) w
  ON w.run = f.run AND w.node = f.n.elected.node AND w.incarnation = f.n.elected.incarnation;
