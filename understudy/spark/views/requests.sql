-- The first answer to each request by the record that it answers, with the time of the last answer and their number.
CREATE TEMPORARY VIEW answers AS
SELECT run, node, incarnation, cause AS request,
       min_by(struct(us, error, greatest(refused_count, size(refused)) AS refused), struct(us, seq)) AS first,
       max(us) AS last_us, count(*) AS answers
FROM ResponseReceived
WHERE cause IS NOT NULL
GROUP BY run, node, incarnation, cause;

-- Each attempt to send a request, with the first answer and the first failure that it caused; their fields are null
-- without one.
CREATE TEMPORARY VIEW sent_requests AS
SELECT s.run, s.us, s.node, s.incarnation, s.seq, s.cause, s.event, s.data_controller_epoch AS controller_epoch, s.`to`,
       s.api, s.correlation_id, s.attempt, s.partitions, a.first AS answer, a.last_us AS last_answer_us, a.answers,
       f.first AS failure
FROM RequestSent s
LEFT JOIN answers a ON a.run = s.run AND a.node = s.node AND a.incarnation = s.incarnation AND a.request = s.seq
LEFT JOIN (
    SELECT run, node, incarnation, cause AS request, min_by(struct(us, why), struct(us, seq)) AS first
    FROM RequestFailed
    WHERE cause IS NOT NULL
    GROUP BY run, node, incarnation, cause
) f ON f.run = s.run AND f.node = s.node AND f.incarnation = s.incarnation AND f.request = s.seq;

-- One attempt to send a request, with the first answer and the first failure that it caused.
CREATE TEMPORARY VIEW request_log AS
SELECT run, node, incarnation, seq, cause, event, controller_epoch, `to`, api, correlation_id, attempt, partitions,
       us / 1000D AS sent_at_ms, answer.us / 1000D AS answered_at_ms, coalesce(answer.error, '') AS error,
       coalesce(answer.refused, 0L) AS refused, failure.us / 1000D AS failed_at_ms, coalesce(failure.why, '') AS failure
FROM sent_requests;

-- Requests of one kind that one kind of controller event sent. Percentiles are nearest rank.
CREATE TEMPORARY VIEW requests AS
SELECT run, event, api, count(*) AS sent, count_if(attempt > 1) AS resent, sum(partitions) AS partitions,
       count(waited_us) AS answered, count(failed_us) AS failed,
       max(CASE WHEN place = (50 * n + 99) DIV 100 THEN waited_us END) / 1000D AS p50_ms,
       max(CASE WHEN place = (99 * n + 99) DIV 100 THEN waited_us END) / 1000D AS p99_ms,
       max(waited_us) / 1000D AS max_ms
FROM (
    SELECT run, event, api, attempt, partitions, answer.us - us AS waited_us, failure.us AS failed_us,
           row_number() OVER (PARTITION BY run, event, api ORDER BY answer.us - us ASC NULLS LAST) AS place,
           count(answer.us) OVER (PARTITION BY run, event, api) AS n
    FROM sent_requests
)
GROUP BY run, event, api;

-- Errors in answers, of whole requests and of single partitions.
CREATE TEMPORARY VIEW refusals AS
SELECT run, api, error, count_if(whole) AS requests, count_if(NOT whole) AS partitions
FROM (
    SELECT run, api, error, true AS whole FROM {ResponseReceived} WHERE error <> 'NONE'
    UNION ALL
    SELECT run, api, one.error, false FROM (SELECT run, api, explode(refused) AS one FROM {ResponseReceived})
)
GROUP BY run, api, error;

-- The hits of one fence of one node by one stale request or write.
CREATE TEMPORARY VIEW fence_hits AS
SELECT run, fence, node, what, offered, known, count(*) AS hits, count_if(switched_off) AS let_through,
       min(us) / 1000D AS first_at_ms
FROM FenceHit
GROUP BY run, fence, node, what, offered, known;
