"""Reads request frames from connections and writes response frames, in order.

Mirrors `kafka.network.SocketServer` and `kafka.server.KafkaApis`. `socket_server` reads and writes frames through the
`Network` port, `kafka_apis` finds the handler in `understudy.brokers.apis`. May import everything below it in
`brokers`.
"""
