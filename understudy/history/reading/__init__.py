"""Reads event logs, and the transaction log of ZooKeeper.

`lines` decodes one line, `reader` reads the files of many brokers and reports each flaw, `run_reader` is the fast way
for files without a flaw, `tail` follows a file that grows, and `order` puts the records of all brokers in one order.
"""
