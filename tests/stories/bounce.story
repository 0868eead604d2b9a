# A broker is gone and back before its session ends. Its id never left /brokers/ids for long, but its epoch changed: the
# controller treats it as new, and orders meant for its former life are refused.

cluster brokers=3 seed=4
topic orders 0:1,2,3 1:2,3,1 2:3,1,2
settle
----
   0.223  = controller 2 epoch 1; leaders (ISR): orders-0 1 (1 2 3), orders-1 2 (2 3 1), orders-2 3 (3 1 2)

bounce leader(orders/1) 300ms
advance 3s
----
   0.223  simulator  kill broker-2 (controller)
   0.523  simulator  start broker-2 (controller)
   0.525  broker-2   opens a ZooKeeper session
   1.538  broker-2   opens a ZooKeeper session
   2.551  broker-2   opens a ZooKeeper session
   3.223  = controller 2 epoch 1; leaders (ISR): orders-0 1 (1 2 3), orders-1 2 (2 3 1), orders-2 3 (3 1 2)

advance 9s
settle
----
   3.564  broker-2   opens a ZooKeeper session
   4.576  broker-2   opens a ZooKeeper session
   5.589  broker-2   opens a ZooKeeper session
   6.075  broker-1   proposes ISR 1 3 for orders-0
   6.502  broker-3   hears from ZooKeeper: /controller deleted
   6.502  broker-1   hears from ZooKeeper: /controller deleted
   6.508  broker-3   hears from ZooKeeper: /controller created
   6.509  broker-3   wins the election: controller epoch 2
   6.509  broker-1   hears from ZooKeeper: /controller created
   6.525  broker-3   has read the cluster: brokers 1 3, 3 partitions
   6.527  broker-3   hears from controller 3: brokers 1 3 live
   6.527  broker-3   sends LeaderAndIsr to broker 3 with 3 partitions
   6.527  broker-3   hears from controller 3: brokers 1 3 live; orders-0: leader 1 epoch 0 ISR 1 2 3, orders-1: leader 2 epoch 0 ISR 2 3 1, orders-2: leader 3 epoch 0 ISR 3 1 2
   6.528  broker-1   hears from controller 3: brokers 1 3 live
   6.529  broker-3   sends LeaderAndIsr to broker 1 with 3 partitions
   6.529  broker-3   writes (isr-removal) orders-0: leader 1 epoch 1 ISR 1 3, orders-1: leader none epoch 1 ISR 3 1, orders-2: leader 3 epoch 1 ISR 3 1
   6.529  broker-3   sends LeaderAndIsr to broker 3 with 3 partitions
   6.529  broker-3   leads orders-2 at epoch 1 and follows orders-0 at epoch 1, as controller 3 orders
   6.529  broker-3   fence broker.fetch-leader-epoch refuses Fetch orders-2 (offered 0, known 1)
   6.529  broker-3   hears from controller 3: brokers 1 3 live; orders-0: leader 1 epoch 1 ISR 1 3, orders-1: leader none epoch 1 ISR 3 1, orders-2: leader 3 epoch 1 ISR 3 1
   6.530  broker-1   hears from controller 3: brokers 1 3 live; orders-0: leader 1 epoch 0 ISR 1 2 3, orders-1: leader 2 epoch 0 ISR 2 3 1, orders-2: leader 3 epoch 0 ISR 3 1 2
   6.530  broker-3   sends LeaderAndIsr to broker 1 with 3 partitions
   6.531  broker-1   leads orders-0 at epoch 1 and follows orders-2 at epoch 1, as controller 3 orders
   6.531  broker-1   fence broker.fetch-leader-epoch refuses Fetch orders-0 (offered 0, known 1)
   6.531  broker-3   writes (offline) orders-1: leader 3 epoch 2 ISR 3 1
   6.531  broker-3   has taken over at controller epoch 2
   6.531  broker-3   sends LeaderAndIsr to broker 3 with 1 partition
   6.531  broker-3   leads orders-1 at epoch 2, as controller 3 orders
   6.531  broker-3   hears from controller 3: brokers 1 3 live; orders-1: leader 3 epoch 2 ISR 3 1
   6.532  broker-1   hears from controller 3: brokers 1 3 live; orders-0: leader 1 epoch 1 ISR 1 3, orders-1: leader none epoch 1 ISR 3 1, orders-2: leader 3 epoch 1 ISR 3 1
   6.532  broker-3   sends LeaderAndIsr to broker 1 with 1 partition
   6.532  broker-1   follows orders-1 at epoch 2, as controller 3 orders
   6.533  broker-1   hears from controller 3: brokers 1 3 live; orders-1: leader 3 epoch 2 ISR 3 1
   6.563  broker-3   fence controller.partition-epochs refuses orders-0 (offered 0, known 1)
   6.563  broker-3   hears from controller 3: brokers 1 3 live; orders-0: leader 1 epoch 1 ISR 1 3
   6.564  broker-1   is answered FENCED_LEADER_EPOCH for orders-0: ISR nobody
   6.564  broker-1   hears from controller 3: brokers 1 3 live; orders-0: leader 1 epoch 1 ISR 1 3
   6.602  broker-2   opens a ZooKeeper session
   6.610  broker-3   hears from ZooKeeper: /brokers/ids children
   6.610  broker-2   is registered, broker epoch 98
   6.613  broker-3   finds brokers new 2
   6.613  broker-3   hears from controller 3: brokers 1 2 3 live
   6.613  broker-3   hears from controller 3: brokers 1 2 3 live; orders-0: leader 1 epoch 1 ISR 1 3, orders-1: leader 3 epoch 2 ISR 3 1, orders-2: leader 3 epoch 1 ISR 3 1
   6.613  broker-1   hears from controller 3: brokers 1 2 3 live
   6.614  broker-1   hears from controller 3: brokers 1 2 3 live; orders-0: leader 1 epoch 1 ISR 1 3, orders-1: leader 3 epoch 2 ISR 3 1, orders-2: leader 3 epoch 1 ISR 3 1
   6.619  broker-2   hears from controller 3: brokers 1 2 3 live; orders-0: leader 1 epoch 1 ISR 1 3, orders-1: leader 3 epoch 2 ISR 3 1, orders-2: leader 3 epoch 1 ISR 3 1
   6.622  broker-3   sends LeaderAndIsr to broker 2 with 3 partitions
   6.624  broker-2   follows orders-0 at epoch 1, orders-1 at epoch 2, orders-2 at epoch 1, as controller 3 orders
   6.628  broker-2   hears from controller 3: brokers 1 2 3 live; orders-0: leader 1 epoch 1 ISR 1 3, orders-1: leader 3 epoch 2 ISR 3 1, orders-2: leader 3 epoch 1 ISR 3 1
   6.630  broker-1   proposes ISR 1 3 2 for orders-0
   6.630  broker-3   proposes ISR 3 1 2 for orders-1
   6.630  broker-3   proposes ISR 3 1 2 for orders-2
   6.632  broker-3   writes (alter-partition) orders-0: leader 1 epoch 1 ISR 1 3 2
   6.632  broker-3   hears from controller 3: brokers 1 2 3 live; orders-0: leader 1 epoch 1 ISR 1 3 2
   6.633  broker-1   is answered NONE for orders-0: ISR 1 3 2
   6.633  broker-1   hears from controller 3: brokers 1 2 3 live; orders-0: leader 1 epoch 1 ISR 1 3 2
   6.634  broker-2   hears from controller 3: brokers 1 2 3 live; orders-0: leader 1 epoch 1 ISR 1 3 2
   6.635  broker-3   writes (alter-partition) orders-1: leader 3 epoch 2 ISR 3 1 2, orders-2: leader 3 epoch 1 ISR 3 1 2
   6.635  broker-3   hears from controller 3: brokers 1 2 3 live; orders-1: leader 3 epoch 2 ISR 3 1 2, orders-2: leader 3 epoch 1 ISR 3 1 2
   6.635  broker-3   is answered NONE for orders-1: ISR 3 1 2
   6.635  broker-3   is answered NONE for orders-2: ISR 3 1 2
   6.635  broker-1   hears from controller 3: brokers 1 2 3 live; orders-1: leader 3 epoch 2 ISR 3 1 2, orders-2: leader 3 epoch 1 ISR 3 1 2
   6.638  broker-2   hears from controller 3: brokers 1 2 3 live; orders-1: leader 3 epoch 2 ISR 3 1 2, orders-2: leader 3 epoch 1 ISR 3 1 2
  12.223  = controller 3 epoch 2; leaders (ISR): orders-0 1 (1 3 2), orders-1 3 (3 1 2), orders-2 3 (3 1 2)
