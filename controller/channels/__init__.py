"""Control requests to brokers: LeaderAndIsr, UpdateMetadata and StopReplica, built per broker and sent in order.
Mirrors `ControllerBrokerRequestBatch` and `ControllerChannelManager`.

Nothing here decides anything: leaders and assignments are read from the context.
"""
