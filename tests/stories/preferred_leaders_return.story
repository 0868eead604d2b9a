# A broker is killed and started again: other replicas lead its partitions now. The controller checks the leader
# imbalance 5 seconds after it has taken over, and every 20 seconds from then on (300 in Kafka). It elects the preferred
# replica of each partition once that is in the ISR.

cluster brokers=3 seed=6 rebalance=on
topic orders 0:1,2,3 1:2,3,1 2:3,1,2
settle
----
   0.220 s  = controller 3 epoch 1; leaders (ISR): orders-0 1 (1 2 3), orders-1 2 (2 3 1), orders-2 3 (3 1 2)

kill controller
advance 8s
start 3
settle
----
   0.220 s  simulator  kill broker-3 (controller)
   6.053 s  broker-2   proposes ISR 2 1 for orders-1
   6.081 s  broker-1   proposes ISR 1 2 for orders-0
   6.501 s  broker-2   receives a watch notification: /controller deleted
   6.502 s  broker-1   receives a watch notification: /controller deleted
   6.507 s  broker-2   receives a watch notification: /controller created
   6.508 s  broker-2   wins the election: controller epoch 2
   6.509 s  broker-1   receives a watch notification: /controller created
   6.526 s  broker-1   finds that broker 2 is the controller
   6.526 s  broker-2   loads the controller context: live brokers 1 2, 3 partitions
   6.529 s  broker-2   applies UpdateMetadata from controller 2: live brokers 1 2
   6.529 s  broker-2   sends LeaderAndIsr to broker 2 with 3 partitions
   6.529 s  broker-2   applies UpdateMetadata from controller 2: live brokers 1 2, 3 partitions
   6.531 s  broker-2   writes (isr-removal) orders-0: leader 1 epoch 1 ISR 1 2, orders-1: leader 2 epoch 1 ISR 2 1, orders-2: leader none epoch 1 ISR 1 2
   6.531 s  broker-2   sends LeaderAndIsr to broker 2 with 3 partitions
   6.531 s  broker-2   applies LeaderAndIsr from controller 2: leads orders-1 at epoch 1 and follows orders-0 at epoch 1
   6.531 s  broker-2   answers Fetch orders-1 with FENCED_LEADER_EPOCH: leader epoch 0 is over, 1 is current
   6.531 s  broker-2   applies UpdateMetadata from controller 2: live brokers 1 2, 3 partitions
   6.533 s  broker-1   applies UpdateMetadata from controller 2: live brokers 1 2
   6.533 s  broker-2   writes (offline) orders-2: leader 1 epoch 2 ISR 1 2
   6.533 s  broker-2   is ready to serve as controller, epoch 2
   6.533 s  broker-2   sends LeaderAndIsr to broker 2 with 1 partition
   6.533 s  broker-2   applies LeaderAndIsr from controller 2: follows orders-2 at epoch 2
   6.533 s  broker-2   applies UpdateMetadata from controller 2: live brokers 1 2, 1 partition
   6.536 s  broker-2   sends LeaderAndIsr to broker 1 with 3 partitions
   6.540 s  broker-1   applies UpdateMetadata from controller 2: live brokers 1 2, 3 partitions
   6.543 s  broker-2   sends LeaderAndIsr to broker 1 with 3 partitions
   6.543 s  broker-1   applies LeaderAndIsr from controller 2: leads orders-0 at epoch 1 and follows orders-1 at epoch 1
   6.543 s  broker-1   answers Fetch orders-0 with FENCED_LEADER_EPOCH: leader epoch 0 is over, 1 is current
   6.545 s  broker-2   fence controller.partition-epochs refuses orders-1 (offered 0, known 1)
   6.545 s  broker-2   receives FENCED_LEADER_EPOCH for its ISR change of orders-1: ISR none
   6.545 s  broker-2   applies UpdateMetadata from controller 2: live brokers 1 2, 1 partition
   6.547 s  broker-1   applies UpdateMetadata from controller 2: live brokers 1 2, 3 partitions
   6.549 s  broker-2   sends LeaderAndIsr to broker 1 with 1 partition
   6.550 s  broker-1   applies LeaderAndIsr from controller 2: leads orders-2 at epoch 2
   6.553 s  broker-1   applies UpdateMetadata from controller 2: live brokers 1 2, 1 partition
   6.557 s  broker-1   applies UpdateMetadata from controller 2: live brokers 1 2, 1 partition
   6.564 s  broker-2   fence controller.partition-epochs refuses orders-0 (offered 0, known 1)
   6.564 s  broker-2   applies UpdateMetadata from controller 2: live brokers 1 2, 1 partition
   6.564 s  broker-1   applies UpdateMetadata from controller 2: live brokers 1 2, 1 partition
   6.564 s  broker-1   receives FENCED_LEADER_EPOCH for its ISR change of orders-0: ISR none
   8.220 s  simulator  start broker-3
   8.221 s  broker-3   opens a ZooKeeper session
   8.227 s  broker-2   receives a watch notification: /brokers/ids children
   8.227 s  broker-3   registers with broker epoch 73
   8.230 s  broker-2   finds new brokers 3
   8.230 s  broker-2   applies UpdateMetadata from controller 2: live brokers 1 2 3
   8.230 s  broker-2   applies UpdateMetadata from controller 2: live brokers 1 2 3, 3 partitions
   8.231 s  broker-1   applies UpdateMetadata from controller 2: live brokers 1 2 3
   8.234 s  broker-3   applies UpdateMetadata from controller 2: live brokers 1 2 3, 3 partitions
   8.234 s  broker-1   applies UpdateMetadata from controller 2: live brokers 1 2 3, 3 partitions
   8.236 s  broker-2   sends LeaderAndIsr to broker 3 with 3 partitions
   8.237 s  broker-3   applies LeaderAndIsr from controller 2: follows orders-0 at epoch 1, orders-1 at epoch 1, orders-2 at epoch 2
   8.240 s  broker-3   applies UpdateMetadata from controller 2: live brokers 1 2 3, 3 partitions
   8.240 s  broker-1   proposes ISR 1 2 3 for orders-0
   8.240 s  broker-1   proposes ISR 1 2 3 for orders-2
   8.242 s  broker-2   proposes ISR 2 1 3 for orders-1
   8.244 s  broker-2   writes (alter-partition) orders-1: leader 2 epoch 1 ISR 2 1 3
   8.244 s  broker-2   receives NONE for its ISR change of orders-1: ISR 2 1 3
   8.244 s  broker-2   applies UpdateMetadata from controller 2: live brokers 1 2 3, 1 partition
   8.244 s  broker-3   applies UpdateMetadata from controller 2: live brokers 1 2 3, 1 partition
   8.245 s  broker-1   applies UpdateMetadata from controller 2: live brokers 1 2 3, 1 partition
   8.246 s  broker-2   writes (alter-partition) orders-0: leader 1 epoch 1 ISR 1 2 3, orders-2: leader 1 epoch 2 ISR 1 2 3
   8.246 s  broker-2   applies UpdateMetadata from controller 2: live brokers 1 2 3, 2 partitions
   8.246 s  broker-1   receives NONE for its ISR change of orders-0: ISR 1 2 3
   8.246 s  broker-1   receives NONE for its ISR change of orders-2: ISR 1 2 3
   8.247 s  broker-3   applies UpdateMetadata from controller 2: live brokers 1 2 3, 2 partitions
   8.248 s  broker-1   applies UpdateMetadata from controller 2: live brokers 1 2 3, 2 partitions
   8.320 s  = controller 2 epoch 2; leaders (ISR): orders-0 1 (1 2 3), orders-1 2 (2 1 3), orders-2 1 (1 2 3)

advance 4s
----
  11.544 s  broker-2   writes (preferred) orders-2: leader 3 epoch 3 ISR 1 2 3
  11.544 s  broker-2   sends LeaderAndIsr to broker 1 with 1 partition
  11.544 s  broker-2   sends LeaderAndIsr to broker 2 with 1 partition
  11.544 s  broker-2   sends LeaderAndIsr to broker 3 with 1 partition
  11.544 s  broker-2   applies LeaderAndIsr from controller 2: follows orders-2 at epoch 3
  11.544 s  broker-2   applies UpdateMetadata from controller 2: live brokers 1 2 3, 1 partition
  11.544 s  broker-3   applies LeaderAndIsr from controller 2: leads orders-2 at epoch 3
  11.545 s  broker-1   applies LeaderAndIsr from controller 2: follows orders-2 at epoch 3
  11.545 s  broker-1   answers Fetch orders-2 with FENCED_LEADER_EPOCH: leader epoch 2 is over, 3 is current
  11.545 s  broker-1   answers Fetch orders-2 with FENCED_LEADER_EPOCH: leader epoch 2 is over, 3 is current
  11.547 s  broker-3   applies UpdateMetadata from controller 2: live brokers 1 2 3, 1 partition
  11.548 s  broker-1   applies UpdateMetadata from controller 2: live brokers 1 2 3, 1 partition
  12.320 s  = controller 2 epoch 2; leaders (ISR): orders-0 1 (1 2 3), orders-1 2 (2 1 3), orders-2 3 (1 2 3)

kill leader(orders/0)
advance 8s
start 1
settle
----
  12.320 s  simulator  kill broker-1
  18.501 s  broker-2   receives a watch notification: /brokers/ids/1 deleted
  18.501 s  broker-2   receives a watch notification: /brokers/ids children
  18.504 s  broker-2   finds dead brokers 1
  18.507 s  broker-2   writes (offline) orders-0: leader 2 epoch 2 ISR 2 3
  18.507 s  broker-2   sends LeaderAndIsr to broker 2 with 1 partition
  18.507 s  broker-2   sends LeaderAndIsr to broker 3 with 1 partition
  18.507 s  broker-2   applies LeaderAndIsr from controller 2: leads orders-0 at epoch 2
  18.507 s  broker-2   applies UpdateMetadata from controller 2: live brokers 2 3, 1 partition
  18.507 s  broker-3   applies LeaderAndIsr from controller 2: follows orders-0 at epoch 2
  18.509 s  broker-2   writes (isr-removal) orders-1: leader 2 epoch 2 ISR 2 3, orders-2: leader 3 epoch 4 ISR 2 3
  18.509 s  broker-2   sends LeaderAndIsr to broker 2 with 3 partitions
  18.509 s  broker-2   applies LeaderAndIsr from controller 2: leads orders-1 at epoch 2 and follows orders-2 at epoch 4
  18.509 s  broker-2   answers Fetch orders-1 with FENCED_LEADER_EPOCH: leader epoch 1 is over, 2 is current
  18.509 s  broker-2   applies UpdateMetadata from controller 2: live brokers 2 3, 3 partitions
  18.510 s  broker-3   applies UpdateMetadata from controller 2: live brokers 2 3, 1 partition
  18.513 s  broker-2   sends LeaderAndIsr to broker 3 with 3 partitions
  18.513 s  broker-3   applies LeaderAndIsr from controller 2: leads orders-2 at epoch 4 and follows orders-1 at epoch 2
  18.513 s  broker-3   answers Fetch orders-2 with FENCED_LEADER_EPOCH: leader epoch 3 is over, 4 is current
  18.517 s  broker-3   applies UpdateMetadata from controller 2: live brokers 2 3, 3 partitions
  20.320 s  simulator  start broker-1
  20.323 s  broker-1   opens a ZooKeeper session
  20.355 s  broker-2   receives a watch notification: /brokers/ids children
  20.357 s  broker-1   registers with broker epoch 81
  20.359 s  broker-2   finds new brokers 1
  20.359 s  broker-2   applies UpdateMetadata from controller 2: live brokers 1 2 3
  20.359 s  broker-2   applies UpdateMetadata from controller 2: live brokers 1 2 3, 3 partitions
  20.359 s  broker-3   applies UpdateMetadata from controller 2: live brokers 1 2 3
  20.362 s  broker-3   applies UpdateMetadata from controller 2: live brokers 1 2 3, 3 partitions
  20.363 s  broker-1   applies UpdateMetadata from controller 2: live brokers 1 2 3, 3 partitions
  20.366 s  broker-2   sends LeaderAndIsr to broker 1 with 3 partitions
  20.366 s  broker-1   applies LeaderAndIsr from controller 2: follows orders-0 at epoch 2, orders-1 at epoch 2, orders-2 at epoch 4
  20.370 s  broker-1   applies UpdateMetadata from controller 2: live brokers 1 2 3, 3 partitions
  20.370 s  broker-3   proposes ISR 2 3 1 for orders-2
  20.372 s  broker-2   proposes ISR 2 3 1 for orders-0
  20.372 s  broker-2   proposes ISR 2 3 1 for orders-1
  20.374 s  broker-2   writes (alter-partition) orders-0: leader 2 epoch 2 ISR 2 3 1, orders-1: leader 2 epoch 2 ISR 2 3 1
  20.374 s  broker-2   applies UpdateMetadata from controller 2: live brokers 1 2 3, 2 partitions
  20.374 s  broker-2   receives NONE for its ISR change of orders-0: ISR 2 3 1
  20.374 s  broker-2   receives NONE for its ISR change of orders-1: ISR 2 3 1
  20.375 s  broker-3   applies UpdateMetadata from controller 2: live brokers 1 2 3, 2 partitions
  20.375 s  broker-1   applies UpdateMetadata from controller 2: live brokers 1 2 3, 2 partitions
  20.382 s  broker-2   writes (alter-partition) orders-2: leader 3 epoch 4 ISR 2 3 1
  20.382 s  broker-2   applies UpdateMetadata from controller 2: live brokers 1 2 3, 1 partition
  20.382 s  broker-3   applies UpdateMetadata from controller 2: live brokers 1 2 3, 1 partition
  20.382 s  broker-3   receives NONE for its ISR change of orders-2: ISR 2 3 1
  20.382 s  broker-1   applies UpdateMetadata from controller 2: live brokers 1 2 3, 1 partition
  20.420 s  = controller 2 epoch 2; leaders (ISR): orders-0 2 (2 3 1), orders-1 2 (2 3 1), orders-2 3 (2 3 1)

advance 12s
----
  31.546 s  broker-2   writes (preferred) orders-0: leader 1 epoch 3 ISR 2 3 1
  31.546 s  broker-2   sends LeaderAndIsr to broker 1 with 1 partition
  31.546 s  broker-2   sends LeaderAndIsr to broker 2 with 1 partition
  31.546 s  broker-2   sends LeaderAndIsr to broker 3 with 1 partition
  31.546 s  broker-2   applies LeaderAndIsr from controller 2: follows orders-0 at epoch 3
  31.546 s  broker-2   answers Fetch orders-0 with FENCED_LEADER_EPOCH: leader epoch 2 is over, 3 is current
  31.546 s  broker-2   answers Fetch orders-0 with FENCED_LEADER_EPOCH: leader epoch 2 is over, 3 is current
  31.546 s  broker-2   applies UpdateMetadata from controller 2: live brokers 1 2 3, 1 partition
  31.547 s  broker-3   applies LeaderAndIsr from controller 2: follows orders-0 at epoch 3
  31.547 s  broker-1   applies LeaderAndIsr from controller 2: leads orders-0 at epoch 3
  31.549 s  broker-3   applies UpdateMetadata from controller 2: live brokers 1 2 3, 1 partition
  31.551 s  broker-1   applies UpdateMetadata from controller 2: live brokers 1 2 3, 1 partition
  32.420 s  = controller 2 epoch 2; leaders (ISR): orders-0 1 (2 3 1), orders-1 2 (2 3 1), orders-2 3 (2 3 1)
