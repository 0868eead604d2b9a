# While the new controller takes over, another broker dies. The watch fires in the middle of the takeover; the event waits its
# turn in the queue, and when it is handled the list is read anew.

cluster brokers=4 seed=6
topic orders 0:1,2,3 1:2,3,4 2:3,4,1 3:4,1,2
settle
call controller first
----
   0.220  = controller 3 epoch 1; leaders (ISR): orders-0 1 (1 2 3), orders-1 2 (2 3 4), orders-2 3 (3 4 1), orders-3 4 (4 1 2)

arm 1 failover.after_epoch pause 2s
arm 2 failover.after_epoch pause 2s
arm 3 failover.after_epoch pause 2s
arm 4 failover.after_epoch pause 2s
stop first
advance 1s
call controller second
expire leader(orders/2)
advance 500ms
----
   0.220  simulator  stop broker-3 (controller)
   0.222  broker-3   writes (controlled-shutdown) orders-2: leader 4 epoch 1 ISR 4 1
   0.222  broker-3   sends LeaderAndIsr to broker 1 with 1 partition
   0.222  broker-3   sends LeaderAndIsr to broker 3 with 1 partition
   0.222  broker-3   sends LeaderAndIsr to broker 4 with 1 partition
   0.222  broker-3   follows orders-2 at epoch 1, as controller 3 orders
   0.222  broker-3   fence broker.fetch-leader-epoch refuses Fetch orders-2 (offered 0, known 1)
   0.222  broker-3   fence broker.fetch-leader-epoch refuses Fetch orders-2 (offered 0, known 1)
   0.222  broker-3   hears from controller 3: brokers 1 2 3 4 live; orders-2: leader 4 epoch 1 ISR 4 1
   0.222  broker-3   sends StopReplica to broker 3 with 2 partitions
   0.222  broker-3   stops orders-0, orders-1, as controller 3 orders
   0.223  broker-1   follows orders-2 at epoch 1, as controller 3 orders
   0.224  broker-3   writes (isr-removal) orders-0: leader 1 epoch 1 ISR 1 2, orders-1: leader 2 epoch 1 ISR 2 4
   0.224  broker-3   hears from controller 3: brokers 1 2 3 4 live; orders-0: leader 1 epoch 1 ISR 1 2, orders-1: leader 2 epoch 1 ISR 2 4
   0.224  broker-3   exits: shutdown
   0.224  broker-3   resigns from controller epoch 1: the broker is shutting down
   0.224  broker-4   leads orders-2 at epoch 1, as controller 3 orders
   0.225  broker-2   hears from controller 3: brokers 1 2 3 4 live; orders-2: leader 4 epoch 1 ISR 4 1
   0.225  broker-2   hears from ZooKeeper: /controller deleted
   0.226  broker-1   hears from ZooKeeper: /controller deleted
   0.226  broker-4   hears from ZooKeeper: /controller deleted
   0.232  broker-2   hears from ZooKeeper: /controller created
   0.232  broker-2   wins the election: controller epoch 2
   0.232  broker-2   reaches failover.after_epoch: pause
   0.232  simulator  pause broker-2 (controller)
   0.233  broker-1   hears from ZooKeeper: /controller created
   0.233  broker-4   hears from ZooKeeper: /controller created
   0.247  broker-1   finds broker 2 elected
   0.248  broker-4   finds broker 2 elected
   1.220  simulator  expire broker-4
   1.221  broker-4   loses its connection to ZooKeeper
   1.429  broker-4   learns that its session has expired
   1.432  broker-4   opens a ZooKeeper session
   1.435  broker-4   is registered, broker epoch 87
   1.720  = controller 2 epoch 2; leaders (ISR): orders-0 1 (1 2), orders-1 2 (2 4), orders-2 4 (4 1), orders-3 4 (4 1 2)

advance 10s
restart first
settle
----
   2.232  simulator  continue broker-2 (controller)
   2.252  broker-2   has read the cluster: brokers 1 2 4, 4 partitions
   2.254  broker-2   has taken over at controller epoch 2
   2.254  broker-2   hears from controller 2: brokers 1 2 4 live
   2.254  broker-2   sends LeaderAndIsr to broker 2 with 3 partitions
   2.254  broker-2   leads orders-1 at epoch 1 and follows orders-0 at epoch 1, as controller 2 orders
   2.254  broker-2   fence broker.fetch-leader-epoch refuses Fetch orders-1 (offered 0, known 1)
   2.254  broker-2   hears from controller 2: brokers 1 2 4 live; orders-0: leader 1 epoch 1 ISR 1 2, orders-2: leader 4 epoch 1 ISR 4 1, orders-3: leader 4 epoch 0 ISR 4 1 2, orders-1: leader 2 epoch 1 ISR 2 4
   2.254  broker-2   sends LeaderAndIsr to broker 2 with 2 partitions
   2.254  broker-2   hears from controller 2: brokers 1 2 4 live; orders-0: leader 1 epoch 1 ISR 1 2, orders-1: leader 2 epoch 1 ISR 2 4, orders-2: leader 4 epoch 1 ISR 4 1
   2.256  broker-4   hears from controller 2: brokers 1 2 4 live
   2.256  broker-2   sends LeaderAndIsr to broker 4 with 3 partitions
   2.257  broker-4   follows orders-1 at epoch 1, as controller 2 orders
   2.258  broker-1   hears from controller 2: brokers 1 2 4 live
   2.259  broker-4   hears from controller 2: brokers 1 2 4 live; orders-0: leader 1 epoch 1 ISR 1 2, orders-2: leader 4 epoch 1 ISR 4 1, orders-3: leader 4 epoch 0 ISR 4 1 2, orders-1: leader 2 epoch 1 ISR 2 4
   2.260  broker-2   sends LeaderAndIsr to broker 4 with 2 partitions
   2.260  broker-2   sends LeaderAndIsr to broker 1 with 3 partitions
   2.261  broker-1   leads orders-0 at epoch 1, as controller 2 orders
   2.261  broker-1   fence broker.fetch-leader-epoch refuses Fetch orders-0 (offered 0, known 1)
   2.262  broker-4   hears from controller 2: brokers 1 2 4 live; orders-0: leader 1 epoch 1 ISR 1 2, orders-1: leader 2 epoch 1 ISR 2 4, orders-2: leader 4 epoch 1 ISR 4 1
   2.265  broker-1   hears from controller 2: brokers 1 2 4 live; orders-0: leader 1 epoch 1 ISR 1 2, orders-2: leader 4 epoch 1 ISR 4 1, orders-3: leader 4 epoch 0 ISR 4 1 2, orders-1: leader 2 epoch 1 ISR 2 4
   2.267  broker-2   sends LeaderAndIsr to broker 1 with 2 partitions
   2.271  broker-1   hears from controller 2: brokers 1 2 4 live; orders-0: leader 1 epoch 1 ISR 1 2, orders-1: leader 2 epoch 1 ISR 2 4, orders-2: leader 4 epoch 1 ISR 4 1
  11.720  simulator  start broker-3
  11.720  broker-3   opens a ZooKeeper session
  11.723  broker-3   is registered, broker epoch 90
  11.724  broker-2   hears from ZooKeeper: /brokers/ids children
  11.727  broker-2   finds brokers new 3
  11.727  broker-2   hears from controller 2: brokers 1 2 3 4 live
  11.727  broker-2   hears from controller 2: brokers 1 2 3 4 live; orders-0: leader 1 epoch 1 ISR 1 2, orders-1: leader 2 epoch 1 ISR 2 4, orders-2: leader 4 epoch 1 ISR 4 1
  11.727  broker-4   hears from controller 2: brokers 1 2 3 4 live
  11.727  broker-1   hears from controller 2: brokers 1 2 3 4 live
  11.729  broker-4   hears from controller 2: brokers 1 2 3 4 live; orders-0: leader 1 epoch 1 ISR 1 2, orders-1: leader 2 epoch 1 ISR 2 4, orders-2: leader 4 epoch 1 ISR 4 1
  11.730  broker-3   hears from controller 2: brokers 1 2 3 4 live; orders-0: leader 1 epoch 1 ISR 1 2, orders-1: leader 2 epoch 1 ISR 2 4, orders-2: leader 4 epoch 1 ISR 4 1, orders-3: leader 4 epoch 0 ISR 4 1 2
  11.731  broker-1   hears from controller 2: brokers 1 2 3 4 live; orders-0: leader 1 epoch 1 ISR 1 2, orders-1: leader 2 epoch 1 ISR 2 4, orders-2: leader 4 epoch 1 ISR 4 1
  11.733  broker-2   sends LeaderAndIsr to broker 3 with 3 partitions
  11.734  broker-3   follows orders-0 at epoch 1, orders-1 at epoch 1, orders-2 at epoch 1, as controller 2 orders
  11.737  broker-3   hears from controller 2: brokers 1 2 3 4 live; orders-0: leader 1 epoch 1 ISR 1 2, orders-1: leader 2 epoch 1 ISR 2 4, orders-2: leader 4 epoch 1 ISR 4 1
  11.737  broker-1   proposes ISR 1 2 3 for orders-0
  11.738  broker-4   proposes ISR 4 1 3 for orders-2
  11.739  broker-2   proposes ISR 2 4 3 for orders-1
  11.742  broker-2   writes (alter-partition) orders-1: leader 2 epoch 1 ISR 2 4 3
  11.742  broker-2   hears from controller 2: brokers 1 2 3 4 live; orders-1: leader 2 epoch 1 ISR 2 4 3
  11.742  broker-2   is answered NONE for orders-1: ISR 2 4 3
  11.743  broker-3   hears from controller 2: brokers 1 2 3 4 live; orders-1: leader 2 epoch 1 ISR 2 4 3
  11.743  broker-4   hears from controller 2: brokers 1 2 3 4 live; orders-1: leader 2 epoch 1 ISR 2 4 3
  11.743  broker-1   hears from controller 2: brokers 1 2 3 4 live; orders-1: leader 2 epoch 1 ISR 2 4 3
  11.745  broker-2   writes (alter-partition) orders-2: leader 4 epoch 1 ISR 4 1 3
  11.745  broker-2   hears from controller 2: brokers 1 2 3 4 live; orders-2: leader 4 epoch 1 ISR 4 1 3
  11.745  broker-4   hears from controller 2: brokers 1 2 3 4 live; orders-2: leader 4 epoch 1 ISR 4 1 3
  11.745  broker-4   is answered NONE for orders-2: ISR 4 1 3
  11.746  broker-3   hears from controller 2: brokers 1 2 3 4 live; orders-2: leader 4 epoch 1 ISR 4 1 3
  11.747  broker-1   hears from controller 2: brokers 1 2 3 4 live; orders-2: leader 4 epoch 1 ISR 4 1 3
  11.748  broker-2   writes (alter-partition) orders-0: leader 1 epoch 1 ISR 1 2 3
  11.748  broker-2   hears from controller 2: brokers 1 2 3 4 live; orders-0: leader 1 epoch 1 ISR 1 2 3
  11.749  broker-3   hears from controller 2: brokers 1 2 3 4 live; orders-0: leader 1 epoch 1 ISR 1 2 3
  11.749  broker-4   hears from controller 2: brokers 1 2 3 4 live; orders-0: leader 1 epoch 1 ISR 1 2 3
  11.749  broker-1   is answered NONE for orders-0: ISR 1 2 3
  11.750  broker-1   hears from controller 2: brokers 1 2 3 4 live; orders-0: leader 1 epoch 1 ISR 1 2 3
  11.820  = controller 2 epoch 2; leaders (ISR): orders-0 1 (1 2 3), orders-1 2 (2 4 3), orders-2 4 (4 1 3), orders-3 4 (4 1 2)
