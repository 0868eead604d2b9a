"""A broker's configuration: keys and their types, `server.properties`, dynamic changes, and descriptions for clients.

Mirrors `KafkaConfig`, `ConfigDef`, `DynamicBrokerConfig`, `ZkConfigManager` and `LogConfig`. Requests about configs are
answered in `understudy.brokers.apis.config_admin_manager`; nothing here depends on requests or on the broker.
"""
