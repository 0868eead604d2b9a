# The multi of a candidate is applied, but the response is lost: the candidate cannot tell whether it has been elected.
# It reads /controller, finds that its own session owns it, and takes over.

cluster brokers=2 seed=7
topic orders 0:1,2 1:2,1
settle
----
   0.223  = controller 2 epoch 1; leaders (ISR): orders-0 1 (1 2), orders-1 2 (2 1)

lose-answer 1 /controller applied
lose-answer 2 /controller applied
kill controller
advance 9s
----
   0.223  simulator  kill broker-2 (controller)
   6.078  broker-1   proposes ISR 1 for orders-0
   6.502  broker-1   receives a watch notification: /controller deleted
   6.515  broker-1   loses its connection to ZooKeeper
   6.515  broker-1   cannot tell whether a write was applied
   6.665  broker-1   is connected to ZooKeeper again, in the same session
   6.669  broker-1   receives a watch notification: /controller created
   6.675  broker-1   wins the election: controller epoch 2
   6.713  broker-1   loads the controller context: live brokers 1, 2 partitions
   6.716  broker-1   applies UpdateMetadata from controller 1: live brokers 1
   6.716  broker-1   sends LeaderAndIsr to broker 1 with 2 partitions
   6.716  broker-1   applies UpdateMetadata from controller 1: live brokers 1, 2 partitions
   6.720  broker-1   writes (isr-removal) orders-0: leader 1 epoch 1 ISR 1, orders-1: leader none epoch 1 ISR 1
   6.720  broker-1   sends LeaderAndIsr to broker 1 with 2 partitions
   6.720  broker-1   applies LeaderAndIsr from controller 1: leads orders-0 at epoch 1
   6.720  broker-1   applies UpdateMetadata from controller 1: live brokers 1, 2 partitions
   6.723  broker-1   writes (offline) orders-1: leader 1 epoch 2 ISR 1
   6.723  broker-1   is ready to serve as controller, epoch 2
   6.723  broker-1   sends LeaderAndIsr to broker 1 with 1 partition
   6.723  broker-1   applies LeaderAndIsr from controller 1: leads orders-1 at epoch 2
   6.723  broker-1   applies UpdateMetadata from controller 1: live brokers 1, 1 partition
   6.744  broker-1   fence controller.partition-epochs refuses orders-0 (offered 0, known 1)
   6.744  broker-1   applies UpdateMetadata from controller 1: live brokers 1, 1 partition
   6.744  broker-1   receives FENCED_LEADER_EPOCH for its ISR change of orders-0: ISR none
   9.223  = controller 1 epoch 2; leaders (ISR): orders-0 1 (1), orders-1 1 (1)

start 2
settle
----
   9.223  simulator  start broker-2
   9.223  broker-2   opens a ZooKeeper session
   9.228  broker-2   registers with broker epoch 55
   9.229  broker-1   receives a watch notification: /brokers/ids children
   9.235  broker-1   finds new brokers 2
   9.235  broker-1   applies UpdateMetadata from controller 1: live brokers 1 2
   9.235  broker-1   applies UpdateMetadata from controller 1: live brokers 1 2, 2 partitions
   9.241  broker-2   applies UpdateMetadata from controller 1: live brokers 1 2, 2 partitions
   9.243  broker-1   sends LeaderAndIsr to broker 2 with 2 partitions
   9.245  broker-2   applies LeaderAndIsr from controller 1: follows orders-0 at epoch 1, orders-1 at epoch 2
   9.249  broker-2   applies UpdateMetadata from controller 1: live brokers 1 2, 2 partitions
   9.251  broker-1   proposes ISR 1 2 for orders-0
   9.251  broker-1   proposes ISR 1 2 for orders-1
   9.254  broker-1   writes (alter-partition) orders-0: leader 1 epoch 1 ISR 1 2, orders-1: leader 1 epoch 2 ISR 1 2
   9.254  broker-1   receives NONE for its ISR change of orders-0: ISR 1 2
   9.254  broker-1   receives NONE for its ISR change of orders-1: ISR 1 2
   9.254  broker-1   applies UpdateMetadata from controller 1: live brokers 1 2, 2 partitions
   9.256  broker-2   applies UpdateMetadata from controller 1: live brokers 1 2, 2 partitions
   9.323  = controller 1 epoch 2; leaders (ISR): orders-0 1 (1 2), orders-1 1 (1 2)
