# A broker is paused right after it has been elected, until its session expires. Another broker is elected with a higher
# epoch. The first one resumes, is notified of the expiry before anything else, resigns, opens another session,
# registers again, and takes part in the election as any other broker.

cluster brokers=3 seed=3
topic orders 0:1,2,3 1:2,3,1
settle
call controller first
----
   0.222 s  = controller 1 epoch 1; leaders (ISR): orders-0 1 (1 2 3), orders-1 2 (2 3 1)

arm 2 failover.after_epoch pause 9s
expire first
advance 4s
----
   0.222 s  simulator  expire broker-1 (controller)
   0.222 s  broker-1   receives a watch notification: /brokers/ids/1 deleted
   0.222 s  broker-1   receives a watch notification: /brokers/ids children
   0.222 s  broker-1   receives a watch notification: /controller deleted
   0.222 s  broker-1   loses its connection to ZooKeeper
   0.222 s  broker-2   receives a watch notification: /controller deleted
   0.223 s  broker-3   receives a watch notification: /controller deleted
   0.223 s  broker-2   receives a watch notification: /controller created
   0.224 s  broker-2   wins the election: controller epoch 2
   0.224 s  broker-2   reaches failover.after_epoch: pause
   0.224 s  simulator  pause broker-2 (controller)
   0.245 s  broker-1   is notified that its session has expired
   0.245 s  broker-1   resigns from controller epoch 1: the ZooKeeper session expired
   0.245 s  broker-1   opens a ZooKeeper session
   0.246 s  broker-1   registers with broker epoch 71
   4.222 s  = controller 2 epoch 2; leaders (ISR): orders-0 1 (1 2 3), orders-1 2 (2 3 1)

advance 10s
settle
----
   6.500 s  broker-1   receives a watch notification: /controller deleted
   6.501 s  broker-1   receives a watch notification: /controller created
   6.501 s  broker-1   wins the election: controller epoch 3
   6.502 s  broker-3   receives a watch notification: /controller deleted
   6.504 s  broker-1   loads the controller context: live brokers 1 3, 2 partitions
   6.504 s  broker-1   applies UpdateMetadata from controller 1: live brokers 1 3
   6.504 s  broker-1   sends LeaderAndIsr to broker 1 with 2 partitions
   6.504 s  broker-1   applies UpdateMetadata from controller 1: live brokers 1 3, 2 partitions
   6.505 s  broker-1   writes (isr-removal) orders-0: leader 1 epoch 1 ISR 1 3, orders-1: leader none epoch 1 ISR 3 1
   6.505 s  broker-1   sends LeaderAndIsr to broker 1 with 2 partitions
   6.505 s  broker-1   applies LeaderAndIsr from controller 1: leads orders-0 at epoch 1
   6.505 s  broker-1   answers Fetch orders-0 with FENCED_LEADER_EPOCH: leader epoch 0 is over, 1 is current
   6.505 s  broker-1   applies UpdateMetadata from controller 1: live brokers 1 3, 2 partitions
   6.505 s  broker-1   writes (offline) orders-1: leader 3 epoch 2 ISR 3 1
   6.505 s  broker-1   is ready to serve as controller, epoch 3
   6.505 s  broker-1   sends LeaderAndIsr to broker 1 with 1 partition
   6.505 s  broker-1   applies LeaderAndIsr from controller 1: follows orders-1 at epoch 2
   6.505 s  broker-1   applies UpdateMetadata from controller 1: live brokers 1 3, 1 partition
   6.509 s  broker-3   applies UpdateMetadata from controller 1: live brokers 1 3
   6.511 s  broker-1   sends LeaderAndIsr to broker 3 with 2 partitions
   6.517 s  broker-3   applies UpdateMetadata from controller 1: live brokers 1 3, 2 partitions
   6.518 s  broker-1   sends LeaderAndIsr to broker 3 with 2 partitions
   6.520 s  broker-3   applies LeaderAndIsr from controller 1: follows orders-0 at epoch 1
   6.524 s  broker-3   applies UpdateMetadata from controller 1: live brokers 1 3, 2 partitions
   6.525 s  broker-1   sends LeaderAndIsr to broker 3 with 1 partition
   6.528 s  broker-3   applies LeaderAndIsr from controller 1: leads orders-1 at epoch 2
   6.531 s  broker-3   applies UpdateMetadata from controller 1: live brokers 1 3, 1 partition
   9.224 s  simulator  resume broker-2
   9.224 s  broker-2   loses its connection to ZooKeeper
   9.227 s  broker-1   answers Fetch orders-0 with FENCED_LEADER_EPOCH: leader epoch 0 is over, 1 is current
   9.282 s  broker-2   is notified that its session has expired
   9.282 s  broker-2   resigns from controller epoch 2: the ZooKeeper session expired
   9.282 s  broker-2   opens a ZooKeeper session
   9.282 s  broker-1   receives a watch notification: /brokers/ids children
   9.283 s  broker-1   finds new brokers 2
   9.283 s  broker-1   applies UpdateMetadata from controller 1: live brokers 1 2 3
   9.283 s  broker-1   applies UpdateMetadata from controller 1: live brokers 1 2 3, 2 partitions
   9.283 s  broker-2   registers with broker epoch 78
   9.285 s  broker-3   applies UpdateMetadata from controller 1: live brokers 1 2 3
   9.288 s  broker-3   applies UpdateMetadata from controller 1: live brokers 1 2 3, 2 partitions
   9.290 s  broker-2   applies UpdateMetadata from controller 1: live brokers 1 2 3, 2 partitions
   9.293 s  broker-1   sends LeaderAndIsr to broker 2 with 2 partitions
   9.296 s  broker-2   applies LeaderAndIsr from controller 1: follows orders-0 at epoch 1, orders-1 at epoch 2
   9.296 s  broker-2   answers Fetch orders-1 with FENCED_LEADER_EPOCH: leader epoch 0 is over, 2 is current
   9.296 s  broker-2   answers Fetch orders-1 with FENCED_LEADER_EPOCH: leader epoch 0 is over, 2 is current
   9.299 s  broker-1   proposes ISR 1 3 2 for orders-0
   9.299 s  broker-1   writes (alter-partition) orders-0: leader 1 epoch 1 ISR 1 3 2
   9.299 s  broker-1   applies UpdateMetadata from controller 1: live brokers 1 2 3, 1 partition
   9.299 s  broker-1   receives NONE for its ISR change of orders-0: ISR 1 3 2
   9.300 s  broker-3   proposes ISR 3 1 2 for orders-1
   9.301 s  broker-2   applies UpdateMetadata from controller 1: live brokers 1 2 3, 2 partitions
   9.302 s  broker-3   applies UpdateMetadata from controller 1: live brokers 1 2 3, 1 partition
   9.306 s  broker-2   applies UpdateMetadata from controller 1: live brokers 1 2 3, 1 partition
   9.309 s  broker-1   writes (alter-partition) orders-1: leader 3 epoch 2 ISR 3 1 2
   9.309 s  broker-1   applies UpdateMetadata from controller 1: live brokers 1 2 3, 1 partition
   9.311 s  broker-3   applies UpdateMetadata from controller 1: live brokers 1 2 3, 1 partition
   9.312 s  broker-3   receives NONE for its ISR change of orders-1: ISR 3 1 2
   9.312 s  broker-2   applies UpdateMetadata from controller 1: live brokers 1 2 3, 1 partition
  14.222 s  = controller 1 epoch 3; leaders (ISR): orders-0 1 (1 3 2), orders-1 3 (3 1 2)
