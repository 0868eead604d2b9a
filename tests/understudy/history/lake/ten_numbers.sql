-- ten numbers of a lake: a name and a query on each line
runs: SELECT count(*) FROM runs WHERE state = 'whole'
records: SELECT sum(records) FROM runs WHERE state = 'whole'
failovers: SELECT count(*) FROM failovers
longest outage: SELECT max(outage_ms) FROM failovers
lost in 2023: SELECT count(*) FROM failovers WHERE year(lost_at) = 2023
requests: SELECT count(*) FROM RequestSent
partitions in requests: SELECT sum(partitions) FROM RequestSent
of whole runs: SELECT count(*) FROM RequestSent JOIN runs USING (run, ingest) WHERE state = 'whole'
in failed-over runs: SELECT count(*) FROM RequestSent WHERE run IN (SELECT run FROM failovers)
leaderless: SELECT sum(leaderless_ms) FROM totals JOIN runs USING (run, ingest) WHERE state = 'whole'
