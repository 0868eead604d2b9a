"""The machine behind a broker process: sockets, files, the clock, kazoo, standard error.

The only package of `brokers` that may import `socket`, open files or import the kazoo adapter. It implements the ports
of `understudy.brokers.world`; the simulator implements the same ports. Nothing in `brokers` imports it but `__main__`.
"""
