"""A broker as a member of the cluster: its ZooKeeper session, its registration, its way to the controller.

Mirrors the parts of `kafka.server.KafkaServer` that register the broker, `NodeToControllerChannelManager` and
`FinalizedFeatureChangeListener`. May import metadata and config; no replica and no request handler.
"""
