# A broker is killed and started again while ZooKeeper still believes in its former life: its id is taken, by itself. It
# cannot register, exits, and is started again until the old session has run out.

cluster brokers=3 seed=4
topic orders 0:1,2,3 1:2,3,1 2:3,1,2
settle
----
   0.223  = controller 2 epoch 1; leaders (ISR): orders-0 1 (1 2 3), orders-1 2 (2 3 1), orders-2 3 (3 1 2)

bounce leader(orders/0) 300ms
advance 3s
----
   0.223  simulator  kill broker-1
   0.523  simulator  start broker-1
   0.527  broker-1   opens a ZooKeeper session
   1.555  broker-1   opens a ZooKeeper session
   2.585  broker-1   opens a ZooKeeper session
   3.223  = controller 2 epoch 1; leaders (ISR): orders-0 1 (1 2 3), orders-1 2 (2 3 1), orders-2 3 (3 1 2)

advance 9s
settle
----
   3.613  broker-1   opens a ZooKeeper session
   4.644  broker-1   opens a ZooKeeper session
   5.673  broker-1   opens a ZooKeeper session
   6.054  broker-3   proposes ISR 3 2 for orders-2
   6.067  broker-2   writes (alter-partition) orders-2: leader 3 epoch 0 ISR 3 2
   6.067  broker-2   hears from controller 2 that brokers 1 2 3 live, and of 1 partition
   6.069  broker-3   hears from controller 2 that brokers 1 2 3 live, and of 1 partition
   6.070  broker-3   is answered NONE for orders-2: ISR 3 2
   6.502  broker-2   hears from ZooKeeper: /brokers/ids/1 deleted
   6.502  broker-2   hears from ZooKeeper: /brokers/ids children
   6.505  broker-2   finds brokers dead 1
   6.508  broker-2   writes (offline) orders-0: leader 2 epoch 1 ISR 2 3
   6.508  broker-2   sends LeaderAndIsr to broker 2 with 1 partition
   6.508  broker-2   sends LeaderAndIsr to broker 3 with 1 partition
   6.508  broker-2   leads orders-0 at epoch 1, as controller 2 orders
   6.508  broker-2   hears from controller 2 that brokers 2 3 live, and of 1 partition
   6.509  broker-2   writes (isr-removal) orders-1: leader 2 epoch 1 ISR 2 3
   6.509  broker-2   sends LeaderAndIsr to broker 2 with 3 partitions
   6.510  broker-2   leads orders-1 at epoch 1, as controller 2 orders
   6.510  broker-2   fence broker.fetch-leader-epoch refuses Fetch orders-1 (offered 0, known 1)
   6.510  broker-2   hears from controller 2 that brokers 2 3 live, and of 3 partitions
   6.510  broker-3   follows orders-0 at epoch 1, as controller 2 orders
   6.515  broker-3   hears from controller 2 that brokers 2 3 live, and of 1 partition
   6.517  broker-2   sends LeaderAndIsr to broker 3 with 3 partitions
   6.520  broker-3   follows orders-1 at epoch 1, as controller 2 orders
   6.524  broker-3   hears from controller 2 that brokers 2 3 live, and of 3 partitions
   6.702  broker-1   opens a ZooKeeper session
   6.719  broker-2   hears from ZooKeeper: /brokers/ids children
   6.721  broker-1   is registered, broker epoch 97
   6.723  broker-2   finds brokers new 1
   6.723  broker-2   hears from controller 2 that brokers 1 2 3 live
   6.723  broker-2   hears from controller 2 that brokers 1 2 3 live, and of 3 partitions
   6.725  broker-3   hears from controller 2 that brokers 1 2 3 live
   6.729  broker-1   hears from controller 2 that brokers 1 2 3 live, and of 3 partitions
   6.729  broker-3   hears from controller 2 that brokers 1 2 3 live, and of 3 partitions
   6.731  broker-2   sends LeaderAndIsr to broker 1 with 3 partitions
   6.733  broker-1   follows orders-0 at epoch 1, orders-1 at epoch 1, orders-2 at epoch 0, as controller 2 orders
   6.734  broker-3   proposes ISR 3 2 1 for orders-2
   6.737  broker-1   hears from controller 2 that brokers 1 2 3 live, and of 3 partitions
   6.738  broker-2   writes (alter-partition) orders-2: leader 3 epoch 0 ISR 3 2 1
   6.738  broker-2   hears from controller 2 that brokers 1 2 3 live, and of 1 partition
   6.739  broker-2   proposes ISR 2 3 1 for orders-0
   6.739  broker-2   proposes ISR 2 3 1 for orders-1
   6.740  broker-3   hears from controller 2 that brokers 1 2 3 live, and of 1 partition
   6.741  broker-1   hears from controller 2 that brokers 1 2 3 live, and of 1 partition
   6.741  broker-3   is answered NONE for orders-2: ISR 3 2 1
   6.741  broker-2   writes (alter-partition) orders-0: leader 2 epoch 1 ISR 2 3 1, orders-1: leader 2 epoch 1 ISR 2 3 1
   6.741  broker-2   is answered NONE for orders-0: ISR 2 3 1
   6.741  broker-2   is answered NONE for orders-1: ISR 2 3 1
   6.741  broker-2   hears from controller 2 that brokers 1 2 3 live, and of 2 partitions
   6.745  broker-3   hears from controller 2 that brokers 1 2 3 live, and of 2 partitions
   6.745  broker-1   hears from controller 2 that brokers 1 2 3 live, and of 2 partitions
  12.223  = controller 2 epoch 1; leaders (ISR): orders-0 2 (2 3 1), orders-1 2 (2 3 1), orders-2 3 (3 2 1)
