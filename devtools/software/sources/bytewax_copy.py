"""Copies a topic with bytewax: bytewax_copy.py BOOTSTRAP SOURCE SINK."""

import sys

import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSinkMessage, operators
from bytewax.dataflow import Dataflow
from bytewax.testing import run_main

bootstrap, source, sink = sys.argv[1:]
brokers = bootstrap.split(",")
flow = Dataflow("copy")
reading = operators.input("reading", flow, brokers=brokers, topics=[source], batch_size=100)
copies = op.map("copying", reading.oks, lambda message: KafkaSinkMessage(message.key, message.value))
operators.output("writing", copies, brokers=brokers, topic=sink, add_config={"acks": "all"})
run_main(flow)
