# The controller shuts down, its ephemeral znode is deleted at once, and both other brokers try to be elected. One multi
# creates /controller and raises the epoch; the multi of the other broker fails as a whole.

cluster brokers=3 seed=5
topic orders 0:1,2,3
settle
call controller leaving
----
   0.234 s  = controller 3 epoch 1; leaders (ISR): orders-0 1 (1 2 3)

stop leaving
advance 3s
----
   0.234 s  simulator  stop broker-3 (controller)
   0.237 s  broker-3   sends StopReplica to broker 3 with 1 partition
   0.237 s  broker-3   applies StopReplica from controller 3: stops orders-0
   0.239 s  broker-3   writes (isr-removal) orders-0: leader 1 epoch 1 ISR 1 2
   0.239 s  broker-3   sends LeaderAndIsr to broker 1 with 1 partition
   0.239 s  broker-3   sends LeaderAndIsr to broker 2 with 1 partition
   0.239 s  broker-3   exits: shutdown
   0.239 s  broker-3   applies UpdateMetadata from controller 3: live brokers 1 2 3, 1 partition
   0.240 s  broker-3   sends StopReplica to broker 3 with 1 partition
   0.240 s  broker-3   applies StopReplica from controller 3: stops orders-0
   0.241 s  broker-2   applies LeaderAndIsr from controller 3: follows orders-0 at epoch 1
   0.241 s  broker-1   applies LeaderAndIsr from controller 3: leads orders-0 at epoch 1
   0.241 s  broker-1   answers Fetch orders-0 with FENCED_LEADER_EPOCH: leader epoch 0 is over, 1 is current
   0.242 s  broker-1   applies UpdateMetadata from controller 3: live brokers 1 2 3, 1 partition
   0.243 s  broker-2   applies UpdateMetadata from controller 3: live brokers 1 2 3, 1 partition
   0.243 s  broker-3   resigns from controller epoch 1: the broker is shutting down
   0.245 s  broker-2   receives a watch notification: /controller deleted
   0.245 s  broker-1   receives a watch notification: /controller deleted
   0.253 s  broker-2   receives a watch notification: /controller created
   0.253 s  broker-2   wins the election: controller epoch 2
   0.254 s  broker-1   receives a watch notification: /controller created
   0.267 s  broker-1   finds that broker 2 is the controller
   0.275 s  broker-2   loads the controller context: live brokers 1 2, 1 partition
   0.277 s  broker-2   is ready to serve as controller, epoch 2
   0.277 s  broker-2   applies UpdateMetadata from controller 2: live brokers 1 2
   0.277 s  broker-2   sends LeaderAndIsr to broker 2 with 1 partition
   0.278 s  broker-2   applies UpdateMetadata from controller 2: live brokers 1 2, 1 partition
   0.278 s  broker-2   sends LeaderAndIsr to broker 2 with 1 partition
   0.278 s  broker-2   applies UpdateMetadata from controller 2: live brokers 1 2, 1 partition
   0.283 s  broker-1   applies UpdateMetadata from controller 2: live brokers 1 2
   0.284 s  broker-2   sends LeaderAndIsr to broker 1 with 1 partition
   0.290 s  broker-1   applies UpdateMetadata from controller 2: live brokers 1 2, 1 partition
   0.291 s  broker-2   sends LeaderAndIsr to broker 1 with 1 partition
   0.297 s  broker-1   applies UpdateMetadata from controller 2: live brokers 1 2, 1 partition
   3.234 s  = controller 2 epoch 2; leaders (ISR): orders-0 1 (1 2)

start leaving
settle
----
   3.234 s  simulator  start broker-3
   3.235 s  broker-3   opens a ZooKeeper session
   3.253 s  broker-2   receives a watch notification: /brokers/ids children
   3.253 s  broker-3   registers with broker epoch 77
   3.257 s  broker-2   finds new brokers 3
   3.257 s  broker-2   applies UpdateMetadata from controller 2: live brokers 1 2 3
   3.257 s  broker-2   applies UpdateMetadata from controller 2: live brokers 1 2 3, 1 partition
   3.259 s  broker-1   applies UpdateMetadata from controller 2: live brokers 1 2 3
   3.259 s  broker-3   applies UpdateMetadata from controller 2: live brokers 1 2 3, 1 partition
   3.261 s  broker-2   sends LeaderAndIsr to broker 3 with 1 partition
   3.261 s  broker-3   applies LeaderAndIsr from controller 2: follows orders-0 at epoch 1
   3.262 s  broker-1   applies UpdateMetadata from controller 2: live brokers 1 2 3, 1 partition
   3.263 s  broker-3   applies UpdateMetadata from controller 2: live brokers 1 2 3, 1 partition
   3.264 s  broker-1   proposes ISR 1 2 3 for orders-0
   3.275 s  broker-2   writes (alter-partition) orders-0: leader 1 epoch 1 ISR 1 2 3
   3.275 s  broker-2   applies UpdateMetadata from controller 2: live brokers 1 2 3, 1 partition
   3.276 s  broker-3   applies UpdateMetadata from controller 2: live brokers 1 2 3, 1 partition
   3.277 s  broker-1   receives NONE for its ISR change of orders-0: ISR 1 2 3
   3.277 s  broker-1   applies UpdateMetadata from controller 2: live brokers 1 2 3, 1 partition
   3.334 s  = controller 2 epoch 2; leaders (ISR): orders-0 1 (1 2 3)
