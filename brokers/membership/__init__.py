"""Makes a broker a member of its cluster: ZooKeeper session, registration, connection to the controller.

Mirrors the parts of `kafka.server.KafkaServer` that register the broker, `NodeToControllerChannelManager` and
`FinalizedFeatureChangeListener`. May import metadata and config; no replica and no request handler.
"""
