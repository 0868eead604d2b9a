# A controller is paused between its write and its requests until its session has expired. When it is resumed, another
# broker is controller, and it has not been notified yet. Its requests carry its old epoch: every broker refuses them.

cluster brokers=3 seed=2
topic orders 0:1,2,3 1:2,3,1 2:3,1,2
settle
call controller zombie
----
   0.326 s  = controller 2 epoch 1; leaders (ISR): orders-0 1 (1 2 3), orders-1 2 (2 3 1), orders-2 3 (3 1 2)

arm zombie partition.after_write pause 14s
kill leader(orders/0)
advance 9s
----
   0.326 s  simulator  kill broker-1
   6.501 s  broker-2   receives a watch notification: /brokers/ids/1 deleted
   6.502 s  broker-2   receives a watch notification: /brokers/ids children
   6.505 s  broker-2   finds dead brokers 1
   6.506 s  broker-2   writes (offline) orders-0: leader 2 epoch 1 ISR 2 3
   6.506 s  broker-2   reaches partition.after_write: pause
   6.506 s  simulator  pause broker-2 (controller)
   9.326 s  = controller 2 epoch 1; leaders (ISR): orders-0 2 (2 3), orders-1 2 (2 3 1), orders-2 3 (3 1 2)

start 1
advance 8s
----
   9.326 s  simulator  start broker-1
   9.330 s  broker-1   opens a ZooKeeper session
   9.370 s  broker-1   registers with broker epoch 70
  13.002 s  broker-3   receives a watch notification: /controller deleted
  13.003 s  broker-1   receives a watch notification: /controller deleted
  13.016 s  broker-1   receives a watch notification: /controller created
  13.016 s  broker-3   receives a watch notification: /controller created
  13.017 s  broker-1   wins the election: controller epoch 2
  13.031 s  broker-3   finds that broker 1 is the controller
  13.056 s  broker-1   loads the controller context: live brokers 1 3, 3 partitions
  13.060 s  broker-1   applies UpdateMetadata from controller 1: live brokers 1 3
  13.060 s  broker-1   sends LeaderAndIsr to broker 1 with 3 partitions
  13.060 s  broker-1   applies LeaderAndIsr from controller 1: follows orders-2 at epoch 0
  13.060 s  broker-1   applies UpdateMetadata from controller 1: live brokers 1 3, 3 partitions
  13.064 s  broker-1   writes (isr-removal) orders-0: leader none epoch 2 ISR 3, orders-1: leader none epoch 1 ISR 3 1, orders-2: leader 3 epoch 1 ISR 3 1
  13.064 s  broker-1   sends LeaderAndIsr to broker 1 with 3 partitions
  13.064 s  broker-1   applies LeaderAndIsr from controller 1: follows orders-2 at epoch 1
  13.064 s  broker-1   applies UpdateMetadata from controller 1: live brokers 1 3, 3 partitions
  13.068 s  broker-1   writes (offline) orders-0: leader 3 epoch 3 ISR 3, orders-1: leader 3 epoch 2 ISR 3 1
  13.068 s  broker-1   is ready to serve as controller, epoch 2
  13.068 s  broker-1   sends LeaderAndIsr to broker 1 with 2 partitions
  13.068 s  broker-1   applies LeaderAndIsr from controller 1: follows orders-0 at epoch 3, orders-1 at epoch 2
  13.068 s  broker-1   applies UpdateMetadata from controller 1: live brokers 1 3, 2 partitions
  13.068 s  broker-3   applies UpdateMetadata from controller 1: live brokers 1 3
  13.071 s  broker-1   sends LeaderAndIsr to broker 3 with 3 partitions
  13.079 s  broker-3   applies UpdateMetadata from controller 1: live brokers 1 3, 3 partitions
  13.081 s  broker-1   sends LeaderAndIsr to broker 3 with 3 partitions
  13.084 s  broker-3   applies LeaderAndIsr from controller 1: leads orders-2 at epoch 1
  13.084 s  broker-3   answers Fetch orders-2 with FENCED_LEADER_EPOCH: leader epoch 0 is over, 1 is current
  13.089 s  broker-3   applies UpdateMetadata from controller 1: live brokers 1 3, 3 partitions
  13.091 s  broker-1   sends LeaderAndIsr to broker 3 with 2 partitions
  13.094 s  broker-3   applies LeaderAndIsr from controller 1: leads orders-0 at epoch 3, orders-1 at epoch 2
  13.099 s  broker-3   applies UpdateMetadata from controller 1: live brokers 1 3, 2 partitions
  14.104 s  broker-3   proposes ISR 3 1 for orders-0
  14.121 s  broker-1   writes (alter-partition) orders-0: leader 3 epoch 3 ISR 3 1
  14.121 s  broker-1   applies UpdateMetadata from controller 1: live brokers 1 3, 1 partition
  14.124 s  broker-3   receives NONE for its ISR change of orders-0: ISR 3 1
  14.124 s  broker-3   applies UpdateMetadata from controller 1: live brokers 1 3, 1 partition
  17.326 s  = controller 1 epoch 2; leaders (ISR): orders-0 3 (3 1), orders-1 3 (3 1), orders-2 3 (3 1)

advance 6s
settle
----
  20.506 s  simulator  resume broker-2
  20.506 s  broker-2   loses its connection to ZooKeeper
  20.506 s  broker-2   sends LeaderAndIsr to broker 2 with 1 partition
  20.506 s  broker-2   sends LeaderAndIsr to broker 3 with 1 partition
  20.506 s  broker-2   cannot tell whether a write was applied
  20.506 s  broker-2   applies LeaderAndIsr from controller 2: leads orders-0 at epoch 1
  20.506 s  broker-2   applies UpdateMetadata from controller 2: live brokers 2 3, 1 partition
  20.507 s  broker-3   answers Fetch orders-2 with FENCED_LEADER_EPOCH: leader epoch 0 is over, 1 is current
  20.507 s  broker-3   fence broker.controller-epoch refuses LeaderAndIsr from 2 (offered 1, known 2)
  20.509 s  broker-2   receives STALE_CONTROLLER_EPOCH from broker 3 (LeaderAndIsr)
  20.510 s  broker-3   fence broker.controller-epoch refuses UpdateMetadata from 2 (offered 1, known 2)
  20.511 s  broker-2   receives STALE_CONTROLLER_EPOCH from broker 3 (UpdateMetadata)
  20.617 s  broker-2   is notified that its session has expired
  20.617 s  broker-2   resigns from controller epoch 1: the ZooKeeper session expired
  20.618 s  broker-2   opens a ZooKeeper session
  20.620 s  broker-1   receives a watch notification: /brokers/ids children
  20.621 s  broker-2   registers with broker epoch 79
  20.628 s  broker-1   finds new brokers 2
  20.628 s  broker-1   applies UpdateMetadata from controller 1: live brokers 1 2 3
  20.628 s  broker-1   applies UpdateMetadata from controller 1: live brokers 1 2 3, 3 partitions
  20.631 s  broker-3   applies UpdateMetadata from controller 1: live brokers 1 2 3
  20.631 s  broker-2   applies UpdateMetadata from controller 1: live brokers 1 2 3, 3 partitions
  20.633 s  broker-1   sends LeaderAndIsr to broker 2 with 3 partitions
  20.633 s  broker-2   applies LeaderAndIsr from controller 1: follows orders-0 at epoch 3, orders-1 at epoch 2, orders-2 at epoch 1
  20.633 s  broker-2   answers Fetch orders-1 with FENCED_LEADER_EPOCH: leader epoch 0 is over, 2 is current
  20.634 s  broker-3   proposes ISR 3 1 2 for orders-2
  20.634 s  broker-3   proposes ISR 3 1 2 for orders-0
  20.634 s  broker-3   proposes ISR 3 1 2 for orders-1
  20.635 s  broker-2   applies UpdateMetadata from controller 1: live brokers 1 2 3, 3 partitions
  20.636 s  broker-3   applies UpdateMetadata from controller 1: live brokers 1 2 3, 3 partitions
  20.640 s  broker-1   writes (alter-partition) orders-2: leader 3 epoch 1 ISR 3 1 2, orders-0: leader 3 epoch 3 ISR 3 1 2, orders-1: leader 3 epoch 2 ISR 3 1 2
  20.640 s  broker-1   applies UpdateMetadata from controller 1: live brokers 1 2 3, 3 partitions
  20.640 s  broker-2   applies UpdateMetadata from controller 1: live brokers 1 2 3, 3 partitions
  20.642 s  broker-3   receives NONE for its ISR change of orders-2: ISR 3 1 2
  20.642 s  broker-3   receives NONE for its ISR change of orders-0: ISR 3 1 2
  20.642 s  broker-3   receives NONE for its ISR change of orders-1: ISR 3 1 2
  20.642 s  broker-3   applies UpdateMetadata from controller 1: live brokers 1 2 3, 3 partitions
  23.326 s  = controller 1 epoch 2; leaders (ISR): orders-0 3 (3 1 2), orders-1 3 (3 1 2), orders-2 3 (3 1 2)
