"""Numbers for operators: instruments that count and time, and the text in which Prometheus reads them.

Mirrors Yammer's metrics 2.2, which Kafka registers as MBeans, and the JMX exporter, which makes Prometheus text of
those.
Numbers are kept for whoever asks: they are not records, nothing here writes the event log, and nothing a broker or
controller does depends on them. Imports the clock's port only.
"""
