"""Sweeps: one failover of the controller for each combination of settings, in the simulator or on processes; also of
Apache Kafka in either of its modes."""
