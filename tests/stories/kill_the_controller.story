# The controller is killed. Nothing happens until its session times out; then ZooKeeper deletes its ephemeral znodes.
# Both other brokers try to create /controller, one is elected and loads the cluster's state, and elects a leader for
# the partition that the dead broker led.

cluster brokers=3 seed=1
topic orders 0:1,2,3 1:2,3,1 2:3,1,2
settle
call controller first
----
   0.348 s  = controller 3 epoch 1; leaders (ISR): orders-0 1 (1 2 3), orders-1 2 (2 3 1), orders-2 3 (3 1 2)

kill first
advance 4s
----
   0.348 s  simulator  kill broker-3 (controller)
   4.348 s  = controller 3 epoch 1; leaders (ISR): orders-0 1 (1 2 3), orders-1 2 (2 3 1), orders-2 3 (3 1 2)

advance 6s
----
   6.072 s  broker-1   proposes ISR 1 2 for orders-0
   6.082 s  broker-2   proposes ISR 2 1 for orders-1
   6.502 s  broker-1   receives a watch notification: /controller deleted
   6.502 s  broker-2   receives a watch notification: /controller deleted
   6.509 s  broker-1   receives a watch notification: /controller created
   6.510 s  broker-1   wins the election: controller epoch 2
   6.510 s  broker-2   receives a watch notification: /controller created
   6.520 s  broker-2   finds that broker 1 is the controller
   6.530 s  broker-1   loads the controller context: live brokers 1 2, 3 partitions
   6.531 s  broker-1   applies UpdateMetadata from controller 1: live brokers 1 2
   6.531 s  broker-1   sends LeaderAndIsr to broker 1 with 3 partitions
   6.532 s  broker-1   applies UpdateMetadata from controller 1: live brokers 1 2, 3 partitions
   6.534 s  broker-1   writes (isr-removal) orders-0: leader 1 epoch 1 ISR 1 2, orders-1: leader 2 epoch 1 ISR 2 1, orders-2: leader none epoch 1 ISR 1 2
   6.534 s  broker-1   sends LeaderAndIsr to broker 1 with 3 partitions
   6.534 s  broker-1   applies LeaderAndIsr from controller 1: leads orders-0 at epoch 1 and follows orders-1 at epoch 1
   6.534 s  broker-1   answers Fetch orders-0 with FENCED_LEADER_EPOCH: leader epoch 0 is over, 1 is current
   6.534 s  broker-1   applies UpdateMetadata from controller 1: live brokers 1 2, 3 partitions
   6.534 s  broker-2   applies UpdateMetadata from controller 1: live brokers 1 2
   6.535 s  broker-1   sends LeaderAndIsr to broker 2 with 3 partitions
   6.536 s  broker-1   writes (offline) orders-2: leader 1 epoch 2 ISR 1 2
   6.536 s  broker-1   is ready to serve as controller, epoch 2
   6.536 s  broker-1   sends LeaderAndIsr to broker 1 with 1 partition
   6.536 s  broker-1   applies LeaderAndIsr from controller 1: leads orders-2 at epoch 2
   6.536 s  broker-1   applies UpdateMetadata from controller 1: live brokers 1 2, 1 partition
   6.538 s  broker-2   applies UpdateMetadata from controller 1: live brokers 1 2, 3 partitions
   6.539 s  broker-1   sends LeaderAndIsr to broker 2 with 3 partitions
   6.540 s  broker-2   applies LeaderAndIsr from controller 1: leads orders-1 at epoch 1 and follows orders-0 at epoch 1
   6.540 s  broker-2   answers Fetch orders-1 with FENCED_LEADER_EPOCH: leader epoch 0 is over, 1 is current
   6.542 s  broker-2   applies UpdateMetadata from controller 1: live brokers 1 2, 3 partitions
   6.542 s  broker-1   sends LeaderAndIsr to broker 2 with 1 partition
   6.543 s  broker-2   applies LeaderAndIsr from controller 1: follows orders-2 at epoch 2
   6.545 s  broker-2   applies UpdateMetadata from controller 1: live brokers 1 2, 1 partition
   6.547 s  broker-1   fence controller.partition-epochs refuses orders-0 (offered 0, known 1)
   6.547 s  broker-1   receives FENCED_LEADER_EPOCH for its ISR change of orders-0: ISR none
   6.547 s  broker-1   applies UpdateMetadata from controller 1: live brokers 1 2, 1 partition
   6.549 s  broker-2   applies UpdateMetadata from controller 1: live brokers 1 2, 1 partition
   6.559 s  broker-1   fence controller.partition-epochs refuses orders-1 (offered 0, known 1)
   6.559 s  broker-1   applies UpdateMetadata from controller 1: live brokers 1 2, 1 partition
   6.560 s  broker-2   receives FENCED_LEADER_EPOCH for its ISR change of orders-1: ISR none
   6.560 s  broker-2   applies UpdateMetadata from controller 1: live brokers 1 2, 1 partition
  10.348 s  = controller 1 epoch 2; leaders (ISR): orders-0 1 (1 2), orders-1 2 (2 1), orders-2 1 (1 2)

start first
settle
----
  10.348 s  simulator  start broker-3
  10.350 s  broker-3   opens a ZooKeeper session
  10.376 s  broker-1   receives a watch notification: /brokers/ids children
  10.377 s  broker-3   registers with broker epoch 83
  10.380 s  broker-1   finds new brokers 3
  10.380 s  broker-1   applies UpdateMetadata from controller 1: live brokers 1 2 3
  10.380 s  broker-1   applies UpdateMetadata from controller 1: live brokers 1 2 3, 3 partitions
  10.381 s  broker-2   applies UpdateMetadata from controller 1: live brokers 1 2 3
  10.382 s  broker-3   applies UpdateMetadata from controller 1: live brokers 1 2 3, 3 partitions
  10.383 s  broker-2   applies UpdateMetadata from controller 1: live brokers 1 2 3, 3 partitions
  10.384 s  broker-1   sends LeaderAndIsr to broker 3 with 3 partitions
  10.384 s  broker-3   applies LeaderAndIsr from controller 1: follows orders-0 at epoch 1, orders-1 at epoch 1, orders-2 at epoch 2
  10.386 s  broker-3   applies UpdateMetadata from controller 1: live brokers 1 2 3, 3 partitions
  10.387 s  broker-1   proposes ISR 1 2 3 for orders-0
  10.387 s  broker-1   proposes ISR 1 2 3 for orders-2
  10.388 s  broker-2   proposes ISR 2 1 3 for orders-1
  10.390 s  broker-1   writes (alter-partition) orders-0: leader 1 epoch 1 ISR 1 2 3, orders-2: leader 1 epoch 2 ISR 1 2 3
  10.390 s  broker-1   receives NONE for its ISR change of orders-0: ISR 1 2 3
  10.390 s  broker-1   receives NONE for its ISR change of orders-2: ISR 1 2 3
  10.390 s  broker-1   applies UpdateMetadata from controller 1: live brokers 1 2 3, 2 partitions
  10.391 s  broker-3   applies UpdateMetadata from controller 1: live brokers 1 2 3, 2 partitions
  10.392 s  broker-2   applies UpdateMetadata from controller 1: live brokers 1 2 3, 2 partitions
  10.393 s  broker-1   writes (alter-partition) orders-1: leader 2 epoch 1 ISR 2 1 3
  10.393 s  broker-1   applies UpdateMetadata from controller 1: live brokers 1 2 3, 1 partition
  10.394 s  broker-3   applies UpdateMetadata from controller 1: live brokers 1 2 3, 1 partition
  10.395 s  broker-2   applies UpdateMetadata from controller 1: live brokers 1 2 3, 1 partition
  10.395 s  broker-2   receives NONE for its ISR change of orders-1: ISR 2 1 3
  10.448 s  = controller 1 epoch 2; leaders (ISR): orders-0 1 (1 2 3), orders-1 2 (2 1 3), orders-2 1 (1 2 3)
