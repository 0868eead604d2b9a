"""The common parts of the engines that run brokers in real time: in processes of this machine, or in containers."""
