"""Tests of a Kafka client in virtual time."""
