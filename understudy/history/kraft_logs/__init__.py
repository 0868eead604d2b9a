"""Turns the log of a KRaft quorum of Apache Kafka into event logs."""
