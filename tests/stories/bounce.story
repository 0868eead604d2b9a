# A broker loses its registration and registers again before the controller reads /brokers/ids: the list of ids that it
# reads does not change. Only the broker epoch differs (KIP-380). The controller handles the broker as one that has died
# and come back.

cluster brokers=3 seed=4
topic orders 0:1,2,3 1:2,3,1 2:3,1,2
settle
call leader(orders/0) quick
----
   0.327 s  = controller 2 epoch 1; leaders (ISR): orders-0 1 (1 2 3), orders-1 2 (2 3 1), orders-2 3 (3 1 2)

pause controller
expire quick
advance 2s
----
   0.327 s  simulator  pause broker-2 (controller)
   0.327 s  simulator  expire broker-1
   0.328 s  broker-1   loses its connection to ZooKeeper
   0.509 s  broker-1   is notified that its session has expired
   0.513 s  broker-1   opens a ZooKeeper session
   0.516 s  broker-1   registers with broker epoch 76
   2.327 s  = controller 2 epoch 1; leaders (ISR): orders-0 1 (1 2 3), orders-1 2 (2 3 1), orders-2 3 (3 1 2)

resume controller
advance 2s
settle
----
   2.327 s  simulator  resume broker-2 (controller)
   2.327 s  broker-2   receives a watch notification: /brokers/ids/1 deleted
   2.327 s  broker-2   receives a watch notification: /brokers/ids children
   2.330 s  broker-2   finds bounced brokers 1
   2.331 s  broker-2   writes (offline) orders-0: leader 2 epoch 1 ISR 2 3
   2.331 s  broker-2   sends LeaderAndIsr to broker 2 with 1 partition
   2.331 s  broker-2   sends LeaderAndIsr to broker 3 with 1 partition
   2.331 s  broker-2   applies LeaderAndIsr from controller 2: leads orders-0 at epoch 1
   2.331 s  broker-2   applies UpdateMetadata from controller 2: live brokers 2 3, 1 partition
   2.333 s  broker-2   writes (isr-removal) orders-1: leader 2 epoch 1 ISR 2 3, orders-2: leader 3 epoch 1 ISR 3 2
   2.333 s  broker-2   sends LeaderAndIsr to broker 2 with 3 partitions
   2.333 s  broker-2   applies LeaderAndIsr from controller 2: leads orders-1 at epoch 1 and follows orders-2 at epoch 1
   2.333 s  broker-2   answers Fetch orders-1 with FENCED_LEADER_EPOCH: leader epoch 0 is over, 1 is current
   2.333 s  broker-2   answers Fetch orders-1 with FENCED_LEADER_EPOCH: leader epoch 0 is over, 1 is current
   2.333 s  broker-2   applies UpdateMetadata from controller 2: live brokers 2 3, 3 partitions
   2.333 s  broker-2   applies UpdateMetadata from controller 2: live brokers 1 2 3
   2.333 s  broker-2   applies UpdateMetadata from controller 2: live brokers 1 2 3, 3 partitions
   2.334 s  broker-3   applies LeaderAndIsr from controller 2: follows orders-0 at epoch 1
   2.339 s  broker-3   applies UpdateMetadata from controller 2: live brokers 2 3, 1 partition
   2.339 s  broker-1   applies UpdateMetadata from controller 2: live brokers 1 2 3, 3 partitions
   2.341 s  broker-2   sends LeaderAndIsr to broker 3 with 3 partitions
   2.341 s  broker-2   sends LeaderAndIsr to broker 1 with 3 partitions
   2.343 s  broker-1   applies LeaderAndIsr from controller 2: follows orders-0 at epoch 1, orders-1 at epoch 1, orders-2 at epoch 1
   2.343 s  broker-1   answers Fetch orders-0 with FENCED_LEADER_EPOCH: leader epoch 0 is over, 1 is current
   2.343 s  broker-1   answers Fetch orders-0 with FENCED_LEADER_EPOCH: leader epoch 0 is over, 1 is current
   2.343 s  broker-3   applies LeaderAndIsr from controller 2: leads orders-2 at epoch 1 and follows orders-1 at epoch 1
   2.343 s  broker-3   answers Fetch orders-2 with FENCED_LEADER_EPOCH: leader epoch 0 is over, 1 is current
   2.343 s  broker-3   answers Fetch orders-2 with FENCED_LEADER_EPOCH: leader epoch 0 is over, 1 is current
   2.345 s  broker-2   proposes ISR 2 3 1 for orders-1
   2.345 s  broker-2   proposes ISR 2 3 1 for orders-0
   2.347 s  broker-2   writes (alter-partition) orders-1: leader 2 epoch 1 ISR 2 3 1, orders-0: leader 2 epoch 1 ISR 2 3 1
   2.347 s  broker-2   receives NONE for its ISR change of orders-1: ISR 2 3 1
   2.347 s  broker-2   receives NONE for its ISR change of orders-0: ISR 2 3 1
   2.347 s  broker-2   applies UpdateMetadata from controller 2: live brokers 1 2 3, 2 partitions
   2.347 s  broker-1   applies UpdateMetadata from controller 2: live brokers 1 2 3, 3 partitions
   2.348 s  broker-3   applies UpdateMetadata from controller 2: live brokers 2 3, 3 partitions
   2.351 s  broker-1   applies UpdateMetadata from controller 2: live brokers 1 2 3, 2 partitions
   2.352 s  broker-3   applies UpdateMetadata from controller 2: live brokers 1 2 3
   2.357 s  broker-3   applies UpdateMetadata from controller 2: live brokers 1 2 3, 3 partitions
   2.361 s  broker-3   applies UpdateMetadata from controller 2: live brokers 1 2 3, 2 partitions
   2.845 s  broker-3   proposes ISR 3 2 1 for orders-2
   2.857 s  broker-2   writes (alter-partition) orders-2: leader 3 epoch 1 ISR 3 2 1
   2.857 s  broker-2   applies UpdateMetadata from controller 2: live brokers 1 2 3, 1 partition
   2.859 s  broker-1   applies UpdateMetadata from controller 2: live brokers 1 2 3, 1 partition
   2.860 s  broker-3   applies UpdateMetadata from controller 2: live brokers 1 2 3, 1 partition
   2.860 s  broker-3   receives NONE for its ISR change of orders-2: ISR 3 2 1
   4.327 s  = controller 2 epoch 1; leaders (ISR): orders-0 2 (2 3 1), orders-1 2 (2 3 1), orders-2 3 (3 2 1)
