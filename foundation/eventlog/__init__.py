"""What happened, as records: append, read, fold, measure.

Every node writes typed, versioned JSON lines before the effect they describe leaves the node. User interface, checkers,
replay and experiments read nothing else. Also here: named fences and named points, because both exist to be seen in the
log. Kafka has no namesake; its state-change log is the nearest relative. Imports `cluster` and msgspec.
"""
