"""Metrics for operators: instruments that count and time, and their text for Prometheus.

Mirrors Yammer's metrics 2.2, which Kafka registers as MBeans, and the JMX exporter, which converts these to Prometheus
text. Metrics are not records: nothing here writes the event log, and nothing that a broker or controller does depends
on them. Imports only the clock's port.
"""
