"""A broker's configuration: keys and their types, `server.properties`, what is changed while it runs, how it is
described.

Mirrors `KafkaConfig`, `ConfigDef`, `DynamicBrokerConfig`, `ZkConfigManager` and `LogConfig`. What a request about
configs is answered with is decided in `brokers.apis.config_admin_manager`; nothing here knows of requests or of the
broker around it.
"""
