"""A producer and a consumer over the `Network` port, for the simulator and for demonstrations.

They do what Kafka's clients promise, with few settings. May import `foundation` alone.
"""
