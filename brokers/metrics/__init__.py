"""What a broker counts, under the names of Kafka's MBeans, and the page on `metrics.port` that shows it."""
