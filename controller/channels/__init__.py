"""What the other brokers are told: LeaderAndIsr, UpdateMetadata and StopReplica, gathered per broker, put into the
version each understands, and sent in order. Mirrors `ControllerBrokerRequestBatch` and `ControllerChannelManager`.

Nothing here chooses anything: who leads and where replicas live has been decided before.
"""
