-- Each state of a partition in a `LeadershipWritten`, and each that a new controller read in a `ContextLoaded`. `place`
-- is the state's position in the record.
CREATE TEMPORARY VIEW named_states AS
SELECT run, us, node, incarnation, seq, place, s.topic, s.partition, s.controller_epoch AS writer_epoch, why,
       s.leader, s.leader_epoch, s.isr
FROM (SELECT run, us, node, incarnation, seq, why, posexplode(partitions) AS (place, s) FROM LeadershipWritten)
UNION ALL
SELECT run, us, node, incarnation, seq, place, s.topic, s.partition, epoch, 'loaded', s.leader, s.leader_epoch, s.isr
FROM (SELECT run, us, node, incarnation, seq, epoch, posexplode(partitions) AS (place, s) FROM ContextLoaded);

-- The states of each partition, and the deletions of its topic. A state is late if its writer's controller epoch is
-- lower than one seen before; the states before and after it are those that are late, or not, like itself.
CREATE TEMPORARY VIEW states AS
SELECT run, us, node, incarnation, seq, place, topic, partition, writer_epoch, why, leader, leader_epoch, isr, is_late,
       (lead(us) OVER in_turn) AS next_us, (lag(leader) OVER in_turn) AS leader_before,
       (lag(isr) OVER in_turn) AS isr_before,
       coalesce(lag(why) OVER in_turn, 'deleted') = 'deleted' AS is_first
FROM (
    SELECT run, us, node, incarnation, seq, place, topic, partition, writer_epoch, why, leader, leader_epoch, isr,
           writer_epoch < max(writer_epoch) OVER (
               PARTITION BY run, topic, partition ORDER BY us, node, incarnation, seq, place
               ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
           ) AS is_late
    FROM (
        SELECT run, us, node, incarnation, seq, place, topic, partition, writer_epoch, why, leader, leader_epoch, isr
        FROM named_states
        UNION ALL
        SELECT d.run, d.us, d.node, d.incarnation, d.seq, 0, d.topic, p.partition, d.controller_epoch, 'deleted',
               NULL, NULL, NULL
        FROM (
            SELECT run, us, node, incarnation, seq, controller_epoch, explode(array_distinct(deleted)) AS topic
            FROM TopicsChanged
        ) d
        JOIN (SELECT DISTINCT run, topic, partition FROM named_states) p ON p.run = d.run AND p.topic = d.topic
    )
)
WINDOW in_turn AS (PARTITION BY run, topic, partition, is_late ORDER BY us, node, incarnation, seq, place);

-- Each time at which a broker was seen to be gone: a `BrokersChanged` that lists it as dead, or the election of a
-- controller whose `ControllerReady` lacks it although it had registered.
CREATE TEMPORARY VIEW gone_brokers AS
SELECT DISTINCT run, node, us
FROM (
    SELECT run, concat('broker-', broker) AS node, us
    FROM (SELECT run, us, explode(dead) AS broker FROM BrokersChanged)
    UNION ALL
    SELECT e.run, b.node, e.elected.us
    FROM reign_times e
    JOIN BrokerRegistered b ON b.run = e.run AND b.us <= e.elected.us
    WHERE NOT array_contains(transform(e.ready.brokers, broker -> concat('broker-', broker)), b.node)
);

-- Gone brokers with the incarnation that had registered last.
CREATE TEMPORARY VIEW gone_incarnations AS
SELECT g.run, g.node, g.us, max_by(b.incarnation, struct(b.us, b.incarnation, b.seq)) AS incarnation
FROM gone_brokers g
LEFT JOIN BrokerRegistered b ON b.run = g.run AND b.node = g.node AND b.us <= g.us
GROUP BY g.run, g.node, g.us;

-- Gone brokers with their session timeout.
CREATE TEMPORARY VIEW gone_timeouts AS
SELECT g.run, g.node, g.us, any_value(g.incarnation) AS incarnation,
       coalesce(
           max_by(o.timeout_ms, struct(o.us, o.incarnation, o.seq)), any_value(s.session_timeout_ms)
       ) AS timeout_ms
FROM gone_incarnations g
JOIN settings s ON s.run = g.run
LEFT JOIN SessionOpened o ON o.run = g.run AND o.node = g.node AND o.us <= g.us
GROUP BY g.run, g.node, g.us;

-- Gone brokers with the time at which their silence began: with the last record, but at most one session timeout before
-- if the silence is longer than one and a half. Without a registration or a timeout it is the time itself.
CREATE TEMPORARY VIEW silences AS
SELECT run, node, us,
       coalesce(CASE WHEN (us - last_us) * 2 > timeout_ms * 3000 THEN us - timeout_ms * 1000
                     WHEN timeout_ms IS NOT NULL THEN last_us END, us) AS began_us
FROM (
    SELECT g.run, g.node, g.us, any_value(g.timeout_ms) AS timeout_ms, max(r.us) AS last_us
    FROM gone_timeouts g
    LEFT JOIN records r ON r.run = g.run AND r.node = g.node AND r.incarnation = g.incarnation AND r.us <= g.us
    GROUP BY g.run, g.node, g.us
);

-- Each record that says that a node is up or down; `is_up` is null in the rows of brokers that were seen to be gone.
CREATE TEMPORARY VIEW signs_of_nodes AS
SELECT run, target AS node, us, fault IN ('resume', 'continue') AS is_up, us AS began_us
FROM FaultInjected
WHERE fault IN ('kill', 'power_loss', 'pause', 'crash', 'resume', 'continue')
UNION ALL
SELECT run, node, us, false, us FROM PointReached
UNION ALL
SELECT run, node, us, false, us FROM ProcessExiting
UNION ALL
SELECT run, node, us, true, us FROM BrokerRegistered
UNION ALL
SELECT run, concat('broker-', broker), us, true, us
FROM (SELECT run, us, explode(concat(new, bounced)) AS broker FROM BrokersChanged)
UNION ALL
SELECT run, node, us, NULL, began_us FROM silences;

-- The times at which a node went up or down. That a broker was seen to be gone counts, from the beginning of its silence
-- on, unless it was already down by a record of another kind.
CREATE TEMPORARY VIEW changes_of_nodes AS
SELECT run, node, began_us AS us, coalesce(is_up, false) AS is_up
FROM (
    SELECT run, node, is_up, began_us,
           coalesce(
               last_value(is_up) IGNORE NULLS OVER (
                   PARTITION BY run, node ORDER BY us, is_up ASC NULLS LAST
                   ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
               ), true
           ) AS known_up
    FROM signs_of_nodes
)
WHERE is_up IS NOT NULL OR known_up;

-- Each stretch in which a node was down; `up_us` is null if it stayed down.
CREATE TEMPORARY VIEW down_times AS
SELECT run, node, us AS fell_us, up_us
FROM (
    SELECT run, node, us, is_up, lead(us) OVER (PARTITION BY run, node ORDER BY us, is_up) AS up_us
    FROM (
        SELECT run, node, us, is_up, lag(is_up, 1, true) OVER (PARTITION BY run, node ORDER BY us, is_up) AS was_up
        FROM changes_of_nodes
    )
    WHERE is_up <> was_up
)
WHERE NOT is_up;

-- States that are not late, each from `since_us` until the next one or the end of the run, with how long the partition
-- was without a leader, and whether the state is an election of a leader. A deletion has no leader to be without.
CREATE TEMPORARY VIEW led_states AS
SELECT run, us, node, incarnation, seq, place, topic, partition, writer_epoch, why, leader, leader_epoch, isr,
       since_us, until_us,
       CASE WHEN why = 'deleted' THEN 0L WHEN leader < 0 THEN until_us - since_us ELSE down_us END AS leaderless_us,
       why NOT IN ('loaded', 'deleted', 'alter-partition', 'isr-removal') AND leader >= 0
           AND (is_first OR leader <> leader_before) AS is_election,
       NOT is_first AND why <> 'deleted' AND size(array_except(isr_before, isr)) > 0 AS is_shrink,
       NOT is_first AND why <> 'deleted' AND size(array_except(isr, isr_before)) > 0 AS is_expand
FROM (
    SELECT s.run, s.us, s.node, s.incarnation, s.seq, s.place, s.topic, s.partition, s.writer_epoch, s.why, s.leader,
           s.leader_epoch, s.isr, s.leader_before, s.isr_before, s.is_first, s.since_us, s.until_us,
           coalesce(sum(greatest(
               least(s.until_us, coalesce(d.up_us, s.until_us)) - greatest(s.since_us, d.fell_us), 0L
           )) FILTER (WHERE d.fell_us IS NOT NULL), 0L) AS down_us
    FROM (
        SELECT s.run, s.us, s.node, s.incarnation, s.seq, s.place, s.topic, s.partition, s.writer_epoch, s.why,
               s.leader, s.leader_epoch, s.isr, s.leader_before, s.isr_before, s.is_first,
               least(s.us, e.us) AS since_us, least(coalesce(s.next_us, e.us), e.us) AS until_us
        FROM states s
        JOIN run_ends e ON e.run = s.run
        WHERE NOT s.is_late
    ) s
    LEFT JOIN down_times d ON d.run = s.run AND d.node = concat('broker-', s.leader)
    GROUP BY s.run, s.us, s.node, s.incarnation, s.seq, s.place, s.topic, s.partition, s.writer_epoch, s.why, s.leader,
             s.leader_epoch, s.isr, s.leader_before, s.isr_before, s.is_first, s.since_us, s.until_us
);

-- One state of a partition, from the record that has it until the next one; late states are left out.
CREATE TEMPORARY VIEW leaderships AS
SELECT run, topic, partition, leader, leader_epoch, isr, writer_epoch AS controller_epoch, why,
       since_us / 1000D AS from_ms, until_us / 1000D AS until_ms, leaderless_us / 1000D AS leaderless_ms
FROM led_states
WHERE why <> 'deleted';

-- Each topic-partition, with how long it was without a leader. Late states count as writes, and nothing else of them
-- counts. `last` is null if the topic has been deleted.
CREATE TEMPORARY VIEW partition_numbers AS
SELECT p.run, p.topic, p.partition, p.last, coalesce(w.writes, 0L) AS writes, p.clean_elections, p.unclean_elections,
       p.isr_shrinks, p.isr_expands, p.leaderless_us
FROM (
    SELECT run, topic, partition,
           max_by(
               CASE WHEN why <> 'deleted' THEN struct(leader, leader_epoch, isr) END,
               struct(us, node, incarnation, seq, place)
           ) AS last,
           count_if(is_election AND why <> 'unclean') AS clean_elections,
           count_if(is_election AND why = 'unclean') AS unclean_elections,
           count_if(is_shrink) AS isr_shrinks, count_if(is_expand) AS isr_expands, sum(leaderless_us) AS leaderless_us
    FROM led_states
    GROUP BY run, topic, partition
) p
LEFT JOIN (
    SELECT run, one.topic, one.partition, count(*) AS writes
    FROM (SELECT run, explode(partitions) AS one FROM {LeadershipWritten})
    GROUP BY run, one.topic, one.partition
) w ON w.run = p.run AND w.topic = p.topic AND w.partition = p.partition;

-- One topic-partition.
CREATE TEMPORARY VIEW partitions AS
SELECT run, topic, partition, last.leader, last.leader_epoch, last.isr, writes, clean_elections, unclean_elections,
       isr_shrinks, isr_expands, leaderless_us / 1000D AS leaderless_ms
FROM partition_numbers;

-- The partition states that were written to ZooKeeper for one reason.
CREATE TEMPORARY VIEW elections AS
SELECT w.run, w.why, w.records, w.partitions, coalesce(e.elected, 0L) AS elected
FROM (
    SELECT run, why, count(*) AS records, CAST(sum(size(partitions)) AS BIGINT) AS partitions
    FROM {LeadershipWritten}
    GROUP BY run, why
) w
LEFT JOIN (SELECT run, why, count_if(is_election) AS elected FROM led_states GROUP BY run, why) e
  ON e.run = w.run AND e.why = w.why;

-- Partitions that got no leader, by reason and error.
CREATE TEMPORARY VIEW failed_elections AS
SELECT run, why, one.error, count(*) AS partitions
FROM (SELECT run, why, explode(partitions) AS one FROM {LeadershipNotWritten})
GROUP BY run, why, one.error;
