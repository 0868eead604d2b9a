# The controller leaves politely, its ephemeral vanishes at once, and the other two race for /controller: one multi creates it
# and raises the epoch, the other's is refused as a whole.

cluster brokers=3 seed=5
topic orders 0:1,2,3
settle
call controller leaving
----
   0.237  = controller 2 epoch 1; leaders (ISR): orders-0 1 (1 2 3)

stop leaving
advance 3s
----
   0.237  simulator  stop broker-2 (controller)
   0.241  broker-2   sends StopReplica to broker 2 with 1 partition
   0.241  broker-2   stops orders-0, as controller 2 orders
   0.244  broker-2   writes (isr-removal) orders-0: leader 1 epoch 1 ISR 1 3
   0.244  broker-2   sends LeaderAndIsr to broker 1 with 1 partition
   0.244  broker-2   sends LeaderAndIsr to broker 3 with 1 partition
   0.244  broker-2   exits: shutdown
   0.244  broker-2   hears from controller 2 that brokers 1 2 3 live, and of 1 partition
   0.244  broker-2   sends StopReplica to broker 2 with 1 partition
   0.244  broker-2   stops orders-0, as controller 2 orders
   0.244  broker-3   follows orders-0 at epoch 1, as controller 2 orders
   0.246  broker-1   leads orders-0 at epoch 1, as controller 2 orders
   0.246  broker-1   fence broker.fetch-leader-epoch refuses Fetch orders-0 (offered 0, known 1)
   0.246  broker-3   hears from controller 2 that brokers 1 2 3 live, and of 1 partition
   0.249  broker-1   hears from controller 2 that brokers 1 2 3 live, and of 1 partition
   0.251  broker-2   resigns from controller epoch 1: the broker is shutting down
   0.253  broker-3   hears from ZooKeeper: /controller deleted
   0.253  broker-1   hears from ZooKeeper: /controller deleted
   0.259  broker-3   hears from ZooKeeper: /controller created
   0.259  broker-3   wins the election: controller epoch 2
   0.260  broker-1   hears from ZooKeeper: /controller created
   0.275  broker-1   finds broker 3 elected
   0.276  broker-3   has read the cluster: brokers 1 3, 1 partition
   0.278  broker-3   has taken over at controller epoch 2
   0.278  broker-3   hears from controller 3 that brokers 1 3 live
   0.278  broker-3   sends LeaderAndIsr to broker 3 with 1 partition
   0.278  broker-3   hears from controller 3 that brokers 1 3 live, and of 1 partition
   0.278  broker-3   sends LeaderAndIsr to broker 3 with 1 partition
   0.278  broker-3   hears from controller 3 that brokers 1 3 live, and of 1 partition
   0.281  broker-1   hears from controller 3 that brokers 1 3 live
   0.281  broker-3   sends LeaderAndIsr to broker 1 with 1 partition
   0.284  broker-1   hears from controller 3 that brokers 1 3 live, and of 1 partition
   0.285  broker-3   sends LeaderAndIsr to broker 1 with 1 partition
   0.288  broker-1   hears from controller 3 that brokers 1 3 live, and of 1 partition
   3.237  = controller 3 epoch 2; leaders (ISR): orders-0 1 (1 3)

restart leaving
settle
----
   3.237  simulator  start broker-2
   3.239  broker-2   opens a ZooKeeper session
   3.249  broker-3   hears from ZooKeeper: /brokers/ids children
   3.250  broker-2   is registered, broker epoch 77
   3.252  broker-3   finds brokers new 2
   3.252  broker-3   hears from controller 3 that brokers 1 2 3 live
   3.252  broker-3   hears from controller 3 that brokers 1 2 3 live, and of 1 partition
   3.254  broker-1   hears from controller 3 that brokers 1 2 3 live
   3.255  broker-1   hears from controller 3 that brokers 1 2 3 live, and of 1 partition
   3.256  broker-2   hears from controller 3 that brokers 1 2 3 live, and of 1 partition
   3.256  broker-3   sends LeaderAndIsr to broker 2 with 1 partition
   3.257  broker-2   follows orders-0 at epoch 1, as controller 3 orders
   3.259  broker-2   hears from controller 3 that brokers 1 2 3 live, and of 1 partition
   3.263  broker-1   proposes ISR 1 3 2 for orders-0
   3.269  broker-3   writes (alter-partition) orders-0: leader 1 epoch 1 ISR 1 3 2
   3.269  broker-3   hears from controller 3 that brokers 1 2 3 live, and of 1 partition
   3.270  broker-1   is answered NONE for orders-0: ISR 1 3 2
   3.270  broker-1   hears from controller 3 that brokers 1 2 3 live, and of 1 partition
   3.270  broker-2   hears from controller 3 that brokers 1 2 3 live, and of 1 partition
   3.337  = controller 3 epoch 2; leaders (ISR): orders-0 1 (1 3 2)
