"""What Kafka's tools do with `--zookeeper`, as in the releases that had the flag, and ZooKeeper's own shell.

They read and write znodes over the `ZooKeeper` port and ask no broker, so that they also work if brokers advertise
names that cannot be reached from here.
"""
