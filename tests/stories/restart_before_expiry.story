# A broker is killed and started again while ZooKeeper still believes in its former life: its id is taken, by itself. It
# cannot register, exits, and is started again until the old session has run out.

cluster brokers=3 seed=4
topic orders 0:1,2,3 1:2,3,1 2:3,1,2
settle
----
   0.325  = controller 3 epoch 1; leaders (ISR): orders-0 1 (1 2 3), orders-1 2 (2 3 1), orders-2 3 (3 1 2)

bounce leader(orders/0) 300ms
advance 3s
----
   0.325  simulator  kill broker-1
   0.625  simulator  start broker-1
   0.629  broker-1   opens a ZooKeeper session
   1.674  broker-1   opens a ZooKeeper session
   2.717  broker-1   opens a ZooKeeper session
   3.325  = controller 3 epoch 1; leaders (ISR): orders-0 1 (1 2 3), orders-1 2 (2 3 1), orders-2 3 (3 1 2)

advance 9s
settle
----
   3.758  broker-1   opens a ZooKeeper session
   4.803  broker-1   opens a ZooKeeper session
   5.847  broker-1   opens a ZooKeeper session
   6.502  broker-3   hears from ZooKeeper: /brokers/ids/1 deleted
   6.502  broker-3   hears from ZooKeeper: /brokers/ids children
   6.505  broker-3   finds brokers dead 1
   6.507  broker-3   writes (offline) orders-0: leader 2 epoch 1 ISR 2 3
   6.507  broker-3   sends LeaderAndIsr to broker 2 with 1 partition
   6.507  broker-3   sends LeaderAndIsr to broker 3 with 1 partition
   6.507  broker-3   follows orders-0 at epoch 1, as controller 3 orders
   6.507  broker-3   hears from controller 3 that brokers 2 3 live, and of 1 partition
   6.509  broker-2   leads orders-0 at epoch 1, as controller 3 orders
   6.509  broker-3   writes (isr-removal) orders-1: leader 2 epoch 1 ISR 2 3, orders-2: leader 3 epoch 1 ISR 3 2
   6.509  broker-3   sends LeaderAndIsr to broker 3 with 3 partitions
   6.509  broker-3   leads orders-2 at epoch 1 and follows orders-1 at epoch 1, as controller 3 orders
   6.509  broker-3   fence broker.fetch-leader-epoch refuses Fetch orders-2 (offered 0, known 1)
   6.509  broker-3   hears from controller 3 that brokers 2 3 live, and of 3 partitions
   6.513  broker-2   hears from controller 3 that brokers 2 3 live, and of 1 partition
   6.515  broker-3   sends LeaderAndIsr to broker 2 with 3 partitions
   6.517  broker-2   leads orders-1 at epoch 1 and follows orders-2 at epoch 1, as controller 3 orders
   6.517  broker-2   fence broker.fetch-leader-epoch refuses Fetch orders-1 (offered 0, known 1)
   6.521  broker-2   hears from controller 3 that brokers 2 3 live, and of 3 partitions
   6.892  broker-1   opens a ZooKeeper session
   6.924  broker-3   hears from ZooKeeper: /brokers/ids children
   6.925  broker-1   is registered, broker epoch 96
   6.927  broker-3   finds brokers new 1
   6.927  broker-3   hears from controller 3 that brokers 1 2 3 live
   6.927  broker-3   hears from controller 3 that brokers 1 2 3 live, and of 3 partitions
   6.929  broker-1   hears from controller 3 that brokers 1 2 3 live, and of 3 partitions
   6.929  broker-3   sends LeaderAndIsr to broker 1 with 3 partitions
   6.929  broker-2   hears from controller 3 that brokers 1 2 3 live
   6.930  broker-1   follows orders-0 at epoch 1, orders-1 at epoch 1, orders-2 at epoch 1, as controller 3 orders
   6.930  broker-1   hears from controller 3 that brokers 1 2 3 live, and of 3 partitions
   6.931  broker-3   proposes ISR 3 2 1 for orders-2
   6.933  broker-3   writes (alter-partition) orders-2: leader 3 epoch 1 ISR 3 2 1
   6.933  broker-3   is answered NONE for orders-2: ISR 3 2 1
   6.933  broker-3   hears from controller 3 that brokers 1 2 3 live, and of 1 partition
   6.933  broker-1   hears from controller 3 that brokers 1 2 3 live, and of 1 partition
   6.934  broker-2   hears from controller 3 that brokers 1 2 3 live, and of 3 partitions
   6.935  broker-2   proposes ISR 2 3 1 for orders-0
   6.935  broker-2   proposes ISR 2 3 1 for orders-1
   6.938  broker-2   hears from controller 3 that brokers 1 2 3 live, and of 1 partition
   6.949  broker-3   writes (alter-partition) orders-0: leader 2 epoch 1 ISR 2 3 1, orders-1: leader 2 epoch 1 ISR 2 3 1
   6.949  broker-3   hears from controller 3 that brokers 1 2 3 live, and of 2 partitions
   6.950  broker-1   hears from controller 3 that brokers 1 2 3 live, and of 2 partitions
   6.951  broker-2   hears from controller 3 that brokers 1 2 3 live, and of 2 partitions
   6.951  broker-2   is answered NONE for orders-0: ISR 2 3 1
   6.951  broker-2   is answered NONE for orders-1: ISR 2 3 1
  12.325  = controller 3 epoch 1; leaders (ISR): orders-0 2 (2 3 1), orders-1 2 (2 3 1), orders-2 3 (3 2 1)
