"""Handles requests, one file for each. A file ends with the constant `SERVES`: request, versions and handler.

`understudy.brokers.network.kafka_apis` collects these constants, so that ApiVersions lists exactly the requests that
are served. Mirrors the handlers of `kafka.server.KafkaApis`.
"""
