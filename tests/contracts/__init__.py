"""The ZooKeeper contract: each case must hold for the real server and for the simulated one."""
