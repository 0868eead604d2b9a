"""The metrics of a broker under the names of Kafka's MBeans, and the page on `metrics.port` that serves them."""
