# A broker's registration goes and comes back faster than the controller looks: the list of ids never changes under its eyes.
# Only the broker epoch tells the two lives apart (KIP-380). The controller treats the broker as dead and new.

cluster brokers=3 seed=4
topic orders 0:1,2,3 1:2,3,1 2:3,1,2
settle
call leader(orders/0) quick
----
   0.325  = controller 3 epoch 1; leaders (ISR): orders-0 1 (1 2 3), orders-1 2 (2 3 1), orders-2 3 (3 1 2)

pause controller
expire quick
advance 2s
----
   0.325  simulator  pause broker-3 (controller)
   0.325  simulator  expire broker-1
   0.327  broker-1   loses its connection to ZooKeeper
   0.445  broker-1   learns that its session has expired
   0.448  broker-1   opens a ZooKeeper session
   0.453  broker-1   is registered, broker epoch 76
   2.325  = controller 3 epoch 1; leaders (ISR): orders-0 1 (1 2 3), orders-1 2 (2 3 1), orders-2 3 (3 1 2)

resume controller
advance 2s
settle
----
   2.325  simulator  continue broker-3 (controller)
   2.325  broker-3   hears from ZooKeeper: /brokers/ids/1 deleted
   2.325  broker-3   hears from ZooKeeper: /brokers/ids children
   2.329  broker-3   finds brokers bounced 1
   2.330  broker-3   writes (offline) orders-0: leader 2 epoch 1 ISR 2 3
   2.330  broker-3   sends LeaderAndIsr to broker 2 with 1 partition
   2.330  broker-3   sends LeaderAndIsr to broker 3 with 1 partition
   2.330  broker-3   follows orders-0 at epoch 1, as controller 3 orders
   2.330  broker-3   hears from controller 3 that brokers 2 3 live, and of 1 partition
   2.332  broker-3   writes (isr-removal) orders-1: leader 2 epoch 1 ISR 2 3, orders-2: leader 3 epoch 1 ISR 3 2
   2.332  broker-3   sends LeaderAndIsr to broker 3 with 3 partitions
   2.332  broker-3   leads orders-2 at epoch 1 and follows orders-1 at epoch 1, as controller 3 orders
   2.332  broker-3   fence broker.fetch-leader-epoch refuses Fetch orders-2 (offered 0, known 1)
   2.332  broker-3   fence broker.fetch-leader-epoch refuses Fetch orders-2 (offered 0, known 1)
   2.332  broker-3   hears from controller 3 that brokers 2 3 live, and of 3 partitions
   2.332  broker-3   hears from controller 3 that brokers 1 2 3 live
   2.332  broker-2   leads orders-0 at epoch 1, as controller 3 orders
   2.332  broker-3   hears from controller 3 that brokers 1 2 3 live, and of 3 partitions
   2.333  broker-1   hears from controller 3 that brokers 1 2 3 live, and of 3 partitions
   2.333  broker-3   sends LeaderAndIsr to broker 1 with 3 partitions
   2.334  broker-1   follows orders-0 at epoch 1, orders-1 at epoch 1, orders-2 at epoch 1, as controller 3 orders
   2.334  broker-1   fence broker.fetch-leader-epoch refuses Fetch orders-0 (offered 0, known 1)
   2.334  broker-1   fence broker.fetch-leader-epoch refuses Fetch orders-0 (offered 0, known 1)
   2.334  broker-3   proposes ISR 3 2 1 for orders-2
   2.335  broker-1   hears from controller 3 that brokers 1 2 3 live, and of 3 partitions
   2.336  broker-3   writes (alter-partition) orders-2: leader 3 epoch 1 ISR 3 2 1
   2.336  broker-3   hears from controller 3 that brokers 1 2 3 live, and of 1 partition
   2.336  broker-3   is answered NONE for orders-2: ISR 3 2 1
   2.337  broker-2   hears from controller 3 that brokers 2 3 live, and of 1 partition
   2.337  broker-1   hears from controller 3 that brokers 1 2 3 live, and of 1 partition
   2.339  broker-3   sends LeaderAndIsr to broker 2 with 3 partitions
   2.341  broker-2   leads orders-1 at epoch 1 and follows orders-2 at epoch 1, as controller 3 orders
   2.341  broker-2   fence broker.fetch-leader-epoch refuses Fetch orders-1 (offered 0, known 1)
   2.341  broker-2   fence broker.fetch-leader-epoch refuses Fetch orders-1 (offered 0, known 1)
   2.346  broker-2   hears from controller 3 that brokers 2 3 live, and of 3 partitions
   2.350  broker-2   hears from controller 3 that brokers 1 2 3 live
   2.354  broker-2   hears from controller 3 that brokers 1 2 3 live, and of 3 partitions
   2.359  broker-2   hears from controller 3 that brokers 1 2 3 live, and of 1 partition
   2.849  broker-2   proposes ISR 2 3 1 for orders-0
   2.849  broker-2   proposes ISR 2 3 1 for orders-1
   2.863  broker-3   writes (alter-partition) orders-0: leader 2 epoch 1 ISR 2 3 1, orders-1: leader 2 epoch 1 ISR 2 3 1
   2.863  broker-3   hears from controller 3 that brokers 1 2 3 live, and of 2 partitions
   2.864  broker-1   hears from controller 3 that brokers 1 2 3 live, and of 2 partitions
   2.865  broker-2   hears from controller 3 that brokers 1 2 3 live, and of 2 partitions
   2.865  broker-2   is answered NONE for orders-0: ISR 2 3 1
   2.865  broker-2   is answered NONE for orders-1: ISR 2 3 1
   4.325  = controller 3 epoch 1; leaders (ISR): orders-0 2 (2 3 1), orders-1 2 (2 3 1), orders-2 3 (3 2 1)
