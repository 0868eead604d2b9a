# A broker is killed and started again before its old session has timed out: the registration of its id still exists. It
# cannot register and exits, and is started again until ZooKeeper has ended the old session.

cluster brokers=3 seed=4
topic orders 0:1,2,3 1:2,3,1 2:3,1,2
settle
----
   0.327 s  = controller 2 epoch 1; leaders (ISR): orders-0 1 (1 2 3), orders-1 2 (2 3 1), orders-2 3 (3 1 2)

bounce leader(orders/0) 300ms
advance 3s
----
   0.327 s  simulator  kill broker-1
   0.627 s  simulator  start broker-1
   0.630 s  broker-1   opens a ZooKeeper session
   1.681 s  broker-1   opens a ZooKeeper session
   2.732 s  broker-1   opens a ZooKeeper session
   3.327 s  = controller 2 epoch 1; leaders (ISR): orders-0 1 (1 2 3), orders-1 2 (2 3 1), orders-2 3 (3 1 2)

advance 9s
settle
----
   3.784 s  broker-1   opens a ZooKeeper session
   4.838 s  broker-1   opens a ZooKeeper session
   5.891 s  broker-1   opens a ZooKeeper session
   6.060 s  broker-3   proposes ISR 3 2 for orders-2
   6.073 s  broker-2   writes (alter-partition) orders-2: leader 3 epoch 0 ISR 3 2
   6.073 s  broker-2   applies UpdateMetadata from controller 2: live brokers 1 2 3, 1 partition
   6.075 s  broker-3   receives NONE for its ISR change of orders-2: ISR 3 2
   6.076 s  broker-3   applies UpdateMetadata from controller 2: live brokers 1 2 3, 1 partition
   6.502 s  broker-2   receives a watch notification: /brokers/ids/1 deleted
   6.502 s  broker-2   receives a watch notification: /brokers/ids children
   6.505 s  broker-2   finds dead brokers 1
   6.507 s  broker-2   writes (offline) orders-0: leader 2 epoch 1 ISR 2 3
   6.507 s  broker-2   sends LeaderAndIsr to broker 2 with 1 partition
   6.507 s  broker-2   sends LeaderAndIsr to broker 3 with 1 partition
   6.507 s  broker-2   applies LeaderAndIsr from controller 2: leads orders-0 at epoch 1
   6.507 s  broker-2   applies UpdateMetadata from controller 2: live brokers 2 3, 1 partition
   6.509 s  broker-2   writes (isr-removal) orders-1: leader 2 epoch 1 ISR 2 3
   6.509 s  broker-2   sends LeaderAndIsr to broker 2 with 3 partitions
   6.509 s  broker-2   applies LeaderAndIsr from controller 2: leads orders-1 at epoch 1
   6.509 s  broker-2   answers Fetch orders-1 with FENCED_LEADER_EPOCH: leader epoch 0 is over, 1 is current
   6.509 s  broker-2   applies UpdateMetadata from controller 2: live brokers 2 3, 3 partitions
   6.510 s  broker-3   applies LeaderAndIsr from controller 2: follows orders-0 at epoch 1
   6.514 s  broker-3   applies UpdateMetadata from controller 2: live brokers 2 3, 1 partition
   6.516 s  broker-2   sends LeaderAndIsr to broker 3 with 3 partitions
   6.518 s  broker-3   applies LeaderAndIsr from controller 2: follows orders-1 at epoch 1
   6.523 s  broker-3   applies UpdateMetadata from controller 2: live brokers 2 3, 3 partitions
   6.941 s  broker-1   opens a ZooKeeper session
   6.978 s  broker-2   receives a watch notification: /brokers/ids children
   6.980 s  broker-1   registers with broker epoch 97
   6.981 s  broker-2   finds new brokers 1
   6.981 s  broker-2   applies UpdateMetadata from controller 2: live brokers 1 2 3
   6.981 s  broker-2   applies UpdateMetadata from controller 2: live brokers 1 2 3, 3 partitions
   6.984 s  broker-3   applies UpdateMetadata from controller 2: live brokers 1 2 3
   6.987 s  broker-1   applies UpdateMetadata from controller 2: live brokers 1 2 3, 3 partitions
   6.988 s  broker-3   applies UpdateMetadata from controller 2: live brokers 1 2 3, 3 partitions
   6.988 s  broker-2   sends LeaderAndIsr to broker 1 with 3 partitions
   6.991 s  broker-1   applies LeaderAndIsr from controller 2: follows orders-0 at epoch 1, orders-1 at epoch 1, orders-2 at epoch 0
   6.992 s  broker-3   proposes ISR 3 2 1 for orders-2
   6.995 s  broker-1   applies UpdateMetadata from controller 2: live brokers 1 2 3, 3 partitions
   6.996 s  broker-2   writes (alter-partition) orders-2: leader 3 epoch 0 ISR 3 2 1
   6.996 s  broker-2   applies UpdateMetadata from controller 2: live brokers 1 2 3, 1 partition
   6.997 s  broker-2   proposes ISR 2 3 1 for orders-0
   6.997 s  broker-2   proposes ISR 2 3 1 for orders-1
   6.998 s  broker-3   receives NONE for its ISR change of orders-2: ISR 3 2 1
   6.999 s  broker-2   writes (alter-partition) orders-0: leader 2 epoch 1 ISR 2 3 1, orders-1: leader 2 epoch 1 ISR 2 3 1
   6.999 s  broker-1   applies UpdateMetadata from controller 2: live brokers 1 2 3, 1 partition
   6.999 s  broker-2   applies UpdateMetadata from controller 2: live brokers 1 2 3, 2 partitions
   6.999 s  broker-2   receives NONE for its ISR change of orders-0: ISR 2 3 1
   6.999 s  broker-2   receives NONE for its ISR change of orders-1: ISR 2 3 1
   6.999 s  broker-3   applies UpdateMetadata from controller 2: live brokers 1 2 3, 1 partition
   7.002 s  broker-1   applies UpdateMetadata from controller 2: live brokers 1 2 3, 2 partitions
   7.004 s  broker-3   applies UpdateMetadata from controller 2: live brokers 1 2 3, 2 partitions
  12.327 s  = controller 2 epoch 1; leaders (ISR): orders-0 2 (2 3 1), orders-1 2 (2 3 1), orders-2 3 (3 2 1)
