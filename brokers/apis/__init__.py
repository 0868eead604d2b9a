"""One file per request. Each begins with what the request does, and ends in what it serves: a constant `SERVES`.

`brokers.network.kafka_apis` collects these constants, so that ApiVersions can say nothing else than what is served.
Mirrors the handlers of `kafka.server.KafkaApis`.
"""
