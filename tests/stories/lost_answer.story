# A candidate's multi is applied, but the answer never arrives: it does not know that it has won. It looks before it acts,
# finds its own session on /controller, and takes over.

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
   6.502  broker-1   hears from ZooKeeper: /controller deleted
   6.515  broker-1   loses its connection to ZooKeeper
   6.515  broker-1   does not learn what became of a write
   6.589  broker-1   is connected to ZooKeeper again, in the same session
   6.592  broker-1   hears from ZooKeeper: /controller created
   6.599  broker-1   wins the election: controller epoch 2
   6.637  broker-1   has read the cluster: brokers 1, 2 partitions
   6.640  broker-1   hears from controller 1 that brokers 1 live
   6.640  broker-1   sends LeaderAndIsr to broker 1 with 2 partitions
   6.640  broker-1   hears from controller 1 that brokers 1 live, and of 2 partitions
   6.644  broker-1   writes (isr-removal) orders-0: leader 1 epoch 1 ISR 1, orders-1: leader none epoch 1 ISR 1
   6.644  broker-1   sends LeaderAndIsr to broker 1 with 2 partitions
   6.644  broker-1   leads orders-0 at epoch 1, as controller 1 orders
   6.644  broker-1   hears from controller 1 that brokers 1 live, and of 2 partitions
   6.648  broker-1   writes (offline) orders-1: leader 1 epoch 2 ISR 1
   6.648  broker-1   has taken over at controller epoch 2
   6.648  broker-1   sends LeaderAndIsr to broker 1 with 1 partition
   6.648  broker-1   leads orders-1 at epoch 2, as controller 1 orders
   6.648  broker-1   hears from controller 1 that brokers 1 live, and of 1 partition
   9.223  = controller 1 epoch 2; leaders (ISR): orders-0 1 (1), orders-1 1 (1)

start 2
settle
----
   9.223  simulator  start broker-2
   9.223  broker-2   opens a ZooKeeper session
   9.227  broker-2   is registered, broker epoch 55
   9.228  broker-1   hears from ZooKeeper: /brokers/ids children
   9.234  broker-1   finds brokers new 2
   9.234  broker-1   hears from controller 1 that brokers 1 2 live
   9.234  broker-1   hears from controller 1 that brokers 1 2 live, and of 2 partitions
   9.240  broker-2   hears from controller 1 that brokers 1 2 live, and of 2 partitions
   9.242  broker-1   sends LeaderAndIsr to broker 2 with 2 partitions
   9.244  broker-2   follows orders-0 at epoch 1, orders-1 at epoch 2, as controller 1 orders
   9.248  broker-2   hears from controller 1 that brokers 1 2 live, and of 2 partitions
   9.249  broker-1   proposes ISR 1 2 for orders-0
   9.249  broker-1   proposes ISR 1 2 for orders-1
   9.252  broker-1   writes (alter-partition) orders-0: leader 1 epoch 1 ISR 1 2, orders-1: leader 1 epoch 2 ISR 1 2
   9.252  broker-1   is answered NONE for orders-0: ISR 1 2
   9.252  broker-1   is answered NONE for orders-1: ISR 1 2
   9.252  broker-1   hears from controller 1 that brokers 1 2 live, and of 2 partitions
   9.255  broker-2   hears from controller 1 that brokers 1 2 live, and of 2 partitions
   9.323  = controller 1 epoch 2; leaders (ISR): orders-0 1 (1 2), orders-1 1 (1 2)
