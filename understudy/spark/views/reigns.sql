-- The values of settings in the first `RunDescribed` of a run that has them; null and an empty text do not count.
CREATE TEMPORARY VIEW described_settings AS
SELECT run, bool_or(is_kraft) AS is_kraft,
       min_by(world, place) FILTER (WHERE world <> '') AS world,
       min_by(brokers, place) FILTER (WHERE brokers IS NOT NULL) AS brokers,
       min_by(partitions, place) FILTER (WHERE partitions IS NOT NULL) AS partitions,
       min_by(session_timeout_ms, place) FILTER (WHERE session_timeout_ms IS NOT NULL) AS session_timeout_ms,
       min_by(seed, place) FILTER (WHERE seed IS NOT NULL) AS seed,
       min_by(fault, place) FILTER (WHERE fault <> '') AS fault,
       min_by(software_version, place) FILTER (WHERE software_version <> '') AS software_version,
       min_by(software_commit, place) FILTER (WHERE software_commit <> '') AS software_commit
FROM (
    SELECT run, world, brokers, partitions, session_timeout_ms, seed, fault, software_version, software_commit,
           is_kraft, struct(us, node, incarnation, seq) AS place
    FROM RunDescribed
)
GROUP BY run;

-- How each run was set up. Three settings are derived from other records if no `RunDescribed` has them, and the mode
-- always.
CREATE TEMPORARY VIEW settings AS
SELECT i.run, d.world, coalesce(d.brokers, i.brokers) AS brokers, coalesce(d.partitions, c.partitions) AS partitions,
       coalesce(d.session_timeout_ms, s.timeout_ms) AS session_timeout_ms, d.seed, d.fault, d.software_version,
       d.software_commit,
       CASE WHEN d.is_kraft THEN 'kafka-kraft' WHEN p.is_kafka THEN 'kafka-zk' WHEN p.is_understudy THEN 'understudy' END
           AS mode
FROM (
    SELECT run, nullif(count(DISTINCT CASE WHEN node RLIKE '^broker-[0-9]+$' THEN node END), 0) AS brokers
    FROM incarnations
    GROUP BY run
) i
LEFT JOIN described_settings d ON d.run = i.run
LEFT JOIN (
    SELECT run, max(partitions) AS partitions FROM {ControllerReady} WHERE partitions > 0 GROUP BY run
) c ON c.run = i.run
LEFT JOIN (SELECT run, max(timeout_ms) AS timeout_ms FROM {SessionOpened} GROUP BY run) s ON s.run = i.run
LEFT JOIN (
    SELECT run, bool_or(software = 'Apache Kafka') AS is_kafka, bool_or(software = 'understudy') AS is_understudy
    FROM {ProcessStarted}
    GROUP BY run
) p ON p.run = i.run;

-- Each election of a controller, which begins a reign. Reigns are numbered within a run by epoch; `next_us` is the time
-- of the next election, which ends the window of the reign.
CREATE TEMPORARY VIEW controller_elections AS
SELECT run, (row_number() OVER in_turn) AS reign, (lead(us) OVER in_turn) AS next_us,
       struct(us, node, incarnation, seq, epoch, broker_id AS broker, cause) AS elected
FROM ControllerElected
WINDOW in_turn AS (PARTITION BY run ORDER BY epoch, us, node, incarnation, seq);

-- Each injected fault, and each armed point that was reached.
CREATE TEMPORARY VIEW injected_faults AS
SELECT run, us, node, incarnation, seq, fault, target, role FROM FaultInjected
UNION ALL
SELECT run, us, node, incarnation, seq, action, node, point FROM PointReached;

-- Reigns with the fault that ended them, if one did: the last one in the window of the reign that was injected into its
-- node, unless it is one that ends an earlier fault.
CREATE TEMPORARY VIEW reigns_with_faults AS
SELECT run, reign, next_us, elected,
       CASE WHEN last.fault NOT IN ('resume', 'continue', 'heal') THEN last.fault END AS fault,
       CASE WHEN last.fault NOT IN ('resume', 'continue', 'heal') THEN last.us END AS fault_us
FROM (
    SELECT e.run, e.reign, e.next_us, e.elected,
           max_by(struct(f.us, f.fault), struct(f.us, f.node, f.incarnation, f.seq)) AS last
    FROM controller_elections e
    LEFT JOIN injected_faults f
      ON f.run = e.run AND f.target IN (e.elected.node, '/controller') AND f.fault <> 'start'
     AND f.us >= e.elected.us AND (e.next_us IS NULL OR f.us <= e.next_us)
    GROUP BY e.run, e.reign, e.next_us, e.elected
);

-- Each notification of a node that the znode `/controller` is deleted. If its incarnation's next news of the znode is
-- that it lost an election, `lost_to` is the winner and `lost_us` the time of that election.
CREATE TEMPORARY VIEW deleted_controllers AS
SELECT run, us, node, incarnation, seq, lost_to, CASE WHEN lost_to IS NOT NULL THEN next_us END AS lost_us
FROM (
    SELECT run, us, node, incarnation, seq, winner, (lead(winner) OVER own) AS lost_to, (lead(us) OVER own) AS next_us
    FROM (
        SELECT run, us, node, incarnation, seq, winner FROM ElectionLost
        UNION ALL
        SELECT run, us, node, incarnation, seq, NULL FROM WatchFired WHERE path = '/controller' AND kind = 'deleted'
    )
    WINDOW own AS (PARTITION BY run, node, incarnation ORDER BY seq)
)
WHERE winner IS NULL;

-- Reigns with their last words, if no fault ended them: the first record of the incarnation after its election, in the
-- window of the reign, that says what ended it.
CREATE TEMPORARY VIEW reigns_with_last_words AS
SELECT run, reign, next_us, elected, fault, fault_us, said.words, said.us AS words_us
FROM (
    SELECT e.run, e.reign, e.next_us, e.elected, e.fault, e.fault_us,
           min_by(struct(w.us, w.words), struct(w.us, w.node, w.incarnation, w.seq)) AS said
    FROM reigns_with_faults e
    LEFT JOIN (
        SELECT run, us, node, incarnation, seq, 'exit' AS words FROM ProcessExiting
        UNION ALL
        SELECT run, us, node, incarnation, seq, 'session expired' FROM SessionExpired
        UNION ALL
        SELECT run, us, node, incarnation, seq, 'resigned' FROM ControllerResigned
        UNION ALL
        SELECT run, us, node, incarnation, seq, 'deleted' FROM deleted_controllers
    ) w
      ON w.run = e.run AND w.node = e.elected.node AND w.incarnation = e.elected.incarnation
     AND w.seq > e.elected.seq AND w.us >= e.elected.us AND (e.next_us IS NULL OR w.us <= e.next_us)
    GROUP BY e.run, e.reign, e.next_us, e.elected, e.fault, e.fault_us
);

-- Reigns with the record by which another node noticed their loss. An echo does not count: a late report of the loss
-- before, after which the same incarnation lost the election to this very reign.
CREATE TEMPORARY VIEW reigns_with_notices AS
SELECT run, reign, next_us, elected, fault, fault_us, words, words_us,
       noticed.us AS noticed_us, noticed.node AS noticed_by
FROM (
    SELECT e.run, e.reign, e.next_us, e.elected, e.fault, e.fault_us, e.words, e.words_us,
           min_by(struct(n.us, n.node), struct(n.us, n.node, n.incarnation, n.seq)) AS noticed
    FROM (
        SELECT run, reign, next_us, elected, fault, fault_us, words, words_us,
               coalesce(fault_us, CASE WHEN next_us IS NOT NULL THEN elected.us ELSE words_us END) AS from_us
        FROM reigns_with_last_words
    ) e
    LEFT JOIN (
        SELECT run, us, node, incarnation, seq, lost_to, lost_us FROM deleted_controllers
        UNION ALL
        SELECT run, us, node, incarnation, seq, NULL, NULL FROM BecameCandidate
    ) n
      ON n.run = e.run AND n.node <> e.elected.node
     AND n.us >= e.from_us AND (e.next_us IS NULL OR n.us <= e.next_us)
     AND NOT coalesce(
         n.lost_to = e.elected.broker AND n.lost_us >= e.elected.us AND (e.next_us IS NULL OR n.lost_us <= e.next_us),
         false
     )
    GROUP BY e.run, e.reign, e.next_us, e.elected, e.fault, e.fault_us, e.words, e.words_us
);

-- Reigns with the last record of their incarnation before the loss was noticed, or else before the next election.
CREATE TEMPORARY VIEW reigns_with_last_signs AS
SELECT e.run, e.reign, e.next_us, e.elected, e.fault, e.fault_us, e.words, e.words_us, e.noticed_us, e.noticed_by,
       max(r.us) AS last_us
FROM reigns_with_notices e
LEFT JOIN records r
  ON r.run = e.run AND r.node = e.elected.node AND r.incarnation = e.elected.incarnation
 AND r.us <= coalesce(e.noticed_us, e.next_us) AND e.fault IS NULL AND e.next_us IS NOT NULL
GROUP BY e.run, e.reign, e.next_us, e.elected, e.fault, e.fault_us, e.words, e.words_us, e.noticed_us, e.noticed_by;

-- Reigns with their ends. A reign with neither a fault nor last words ends when its silence before the notice begins:
-- with its last record, but at most one session timeout before the notice if the silence is longer than one and a half.
CREATE TEMPORARY VIEW ended_reigns AS
SELECT run, reign, next_us, elected, fault, noticed_us, noticed_by,
       coalesce(
           fault_us,
           CASE WHEN words IS NULL AND (noticed_us - last_us) * 2 > timeout_ms * 3000
                THEN noticed_us - timeout_ms * 1000 END,
           last_us,
           CASE WHEN next_us IS NULL THEN words_us END
       ) AS ended_us,
       coalesce(fault, words, CASE WHEN next_us IS NULL THEN '' ELSE 'silence' END) AS ended_by
FROM (
    SELECT e.run, e.reign, e.next_us, e.elected, e.fault, e.fault_us, e.words, e.words_us, e.noticed_us, e.noticed_by,
           e.last_us,
           coalesce(
               max_by(o.timeout_ms, struct(o.us, o.incarnation, o.seq)), any_value(s.session_timeout_ms)
           ) AS timeout_ms
    FROM reigns_with_last_signs e
    JOIN settings s ON s.run = e.run
    LEFT JOIN SessionOpened o ON o.run = e.run AND o.node = e.elected.node AND o.us <= e.noticed_us
    GROUP BY e.run, e.reign, e.next_us, e.elected, e.fault, e.fault_us, e.words, e.words_us, e.noticed_us, e.noticed_by,
             e.last_us
);

-- Reigns with all their times. `ready` is the first `ControllerReady` of the reign's epoch by its incarnation; its
-- fields are null without one.
CREATE TEMPORARY VIEW reign_times AS
SELECT e.run, e.reign, e.next_us, e.elected, e.fault, e.noticed_us, e.noticed_by, e.ended_us, e.ended_by,
       min_by(struct(c.us, c.partitions, c.brokers), struct(c.us, c.seq)) AS ready
FROM ended_reigns e
LEFT JOIN ControllerReady c
  ON c.run = e.run AND c.node = e.elected.node AND c.incarnation = e.elected.incarnation AND c.epoch = e.elected.epoch
GROUP BY e.run, e.reign, e.next_us, e.elected, e.fault, e.noticed_us, e.noticed_by, e.ended_us, e.ended_by;

-- One controller, from its election until it is lost.
CREATE TEMPORARY VIEW reigns AS
SELECT run, elected.epoch, elected.broker, elected.node, elected.incarnation, elected.us / 1000D AS elected_at_ms,
       ready.us / 1000D AS ready_at_ms, ended_us / 1000D AS ended_at_ms, ended_by, fault IS NOT NULL AS by_fault,
       noticed_us / 1000D AS noticed_at_ms, coalesce(noticed_by, '') AS noticed_by
FROM reign_times;

-- The end of each run: its last record, or the orderly end of the last controller if no broker left a record after it.
CREATE TEMPORARY VIEW run_ends AS
SELECT run, CASE WHEN ended_us IS NOT NULL AND NOT others_after THEN ended_us ELSE last_us END AS us
FROM (
    SELECT i.run, max(i.last_us) AS last_us, any_value(f.ended_us) AS ended_us,
           bool_or(coalesce(
               startswith(i.node, 'broker-') AND i.node <> f.elected.node AND i.last_us > f.ended_us, false
           )) AS others_after
    FROM incarnations i
    LEFT JOIN reign_times f ON f.run = i.run AND f.next_us IS NULL AND f.ended_by IN ('stop', 'exit')
    GROUP BY i.run
);
