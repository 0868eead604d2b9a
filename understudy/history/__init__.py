"""What has happened in a run: its event logs as records in one order, and what is computed from them.

`reading` reads files, `metrics` computes the numbers of one run, `report` prints them, `lake` keeps the runs, `compare`
sets groups of runs beside each other, `kafka_logs` makes event logs from the files of an Apache Kafka cluster, and
`narrator` says a record in a sentence. `writing` writes pages as text and HTML. Nothing here imports a
cluster: a run is known by its files.
"""
