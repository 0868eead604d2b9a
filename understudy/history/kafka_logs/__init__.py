"""Turns the logs of an Apache Kafka cluster in ZooKeeper mode into event-log records."""
