"""Clients over the `Network` port: producers, consumers, members of groups, and an admin client.

They do what Kafka's clients promise, with few settings. The simulator and the tools use them, `client_load` and
`group_load` put a load on a cluster and record what its clients see.
"""
