# The multi of a candidate is applied, but the response is lost: the candidate cannot tell whether it has been elected.
# It reads /controller, finds that its own session owns it, and takes over.

cluster brokers=2 seed=7
topic orders 0:1,2 1:2,1
settle
----
   0.223 s  = controller 2 epoch 1; leaders (ISR): orders-0 1 (1 2), orders-1 2 (2 1)

lose-answer 1 /controller applied
lose-answer 2 /controller applied
kill controller
advance 9s
----
   0.223 s  simulator  kill broker-2 (controller)
   6.078 s  broker-1   proposes ISR 1 for orders-0
   6.502 s  broker-1   receives a watch notification: /controller deleted
   6.515 s  broker-1   loses its connection to ZooKeeper
   6.515 s  broker-1   cannot tell whether a write was applied
   6.665 s  broker-1   is connected to ZooKeeper again, in the same session
   6.669 s  broker-1   receives a watch notification: /controller created
   6.675 s  broker-1   wins the election: controller epoch 2
   6.713 s  broker-1   loads the controller context: live brokers 1, 2 partitions
   6.716 s  broker-1   applies UpdateMetadata from controller 1: live brokers 1
   6.716 s  broker-1   sends LeaderAndIsr to broker 1 with 2 partitions
   6.716 s  broker-1   applies UpdateMetadata from controller 1: live brokers 1, 2 partitions
   6.720 s  broker-1   writes (isr-removal) orders-0: leader 1 epoch 1 ISR 1, orders-1: leader none epoch 1 ISR 1
   6.720 s  broker-1   sends LeaderAndIsr to broker 1 with 2 partitions
   6.720 s  broker-1   applies LeaderAndIsr from controller 1: leads orders-0 at epoch 1
   6.720 s  broker-1   applies UpdateMetadata from controller 1: live brokers 1, 2 partitions
   6.723 s  broker-1   writes (offline) orders-1: leader 1 epoch 2 ISR 1
   6.723 s  broker-1   is ready to serve as controller, epoch 2
   6.723 s  broker-1   sends LeaderAndIsr to broker 1 with 1 partition
   6.723 s  broker-1   applies LeaderAndIsr from controller 1: leads orders-1 at epoch 2
   6.723 s  broker-1   applies UpdateMetadata from controller 1: live brokers 1, 1 partition
   6.744 s  broker-1   fence controller.partition-epochs refuses orders-0 (offered 0, known 1)
   6.744 s  broker-1   applies UpdateMetadata from controller 1: live brokers 1, 1 partition
   6.744 s  broker-1   receives FENCED_LEADER_EPOCH for its ISR change of orders-0: ISR none
   9.223 s  = controller 1 epoch 2; leaders (ISR): orders-0 1 (1), orders-1 1 (1)

start 2
settle
----
   9.223 s  simulator  start broker-2
   9.223 s  broker-2   opens a ZooKeeper session
   9.228 s  broker-2   registers with broker epoch 55
   9.229 s  broker-1   receives a watch notification: /brokers/ids children
   9.235 s  broker-1   finds new brokers 2
   9.235 s  broker-1   applies UpdateMetadata from controller 1: live brokers 1 2
   9.235 s  broker-1   applies UpdateMetadata from controller 1: live brokers 1 2, 2 partitions
   9.241 s  broker-2   applies UpdateMetadata from controller 1: live brokers 1 2, 2 partitions
   9.243 s  broker-1   sends LeaderAndIsr to broker 2 with 2 partitions
   9.245 s  broker-2   applies LeaderAndIsr from controller 1: follows orders-0 at epoch 1, orders-1 at epoch 2
   9.249 s  broker-2   applies UpdateMetadata from controller 1: live brokers 1 2, 2 partitions
   9.251 s  broker-1   proposes ISR 1 2 for orders-0
   9.251 s  broker-1   proposes ISR 1 2 for orders-1
   9.254 s  broker-1   writes (alter-partition) orders-0: leader 1 epoch 1 ISR 1 2, orders-1: leader 1 epoch 2 ISR 1 2
   9.254 s  broker-1   receives NONE for its ISR change of orders-0: ISR 1 2
   9.254 s  broker-1   receives NONE for its ISR change of orders-1: ISR 1 2
   9.254 s  broker-1   applies UpdateMetadata from controller 1: live brokers 1 2, 2 partitions
   9.256 s  broker-2   applies UpdateMetadata from controller 1: live brokers 1 2, 2 partitions
   9.323 s  = controller 1 epoch 2; leaders (ISR): orders-0 1 (1 2), orders-1 1 (1 2)
