# Elected, and at once no longer: a candidate stands still right after it has won, until its session expires. The next one
# wins at a higher epoch. The first wakes, learns of the expiry before anything else, resigns, opens another session, registers
# again and joins the race as anybody else.

cluster brokers=3 seed=3
topic orders 0:1,2,3 1:2,3,1
settle
call controller first
----
   0.221  = controller 1 epoch 1; leaders (ISR): orders-0 1 (1 2 3), orders-1 2 (2 3 1)

arm 2 failover.after_epoch pause 9s
expire first
advance 4s
----
   0.221  simulator  expire broker-1 (controller)
   0.221  broker-1   hears from ZooKeeper: /brokers/ids/1 deleted
   0.221  broker-1   hears from ZooKeeper: /brokers/ids children
   0.221  broker-1   hears from ZooKeeper: /controller deleted
   0.221  broker-1   loses its connection to ZooKeeper
   0.222  broker-2   hears from ZooKeeper: /controller deleted
   0.223  broker-3   hears from ZooKeeper: /controller deleted
   0.223  broker-2   hears from ZooKeeper: /controller created
   0.224  broker-2   wins the election: controller epoch 2
   0.224  broker-2   reaches failover.after_epoch: pause
   0.224  simulator  pause broker-2 (controller)
   0.418  broker-1   learns that its session has expired
   0.418  broker-1   resigns from controller epoch 1: the ZooKeeper session expired
   0.418  broker-1   opens a ZooKeeper session
   0.418  broker-1   is registered, broker epoch 71
   4.221  = controller 2 epoch 2; leaders (ISR): orders-0 1 (1 2 3), orders-1 2 (2 3 1)

advance 10s
settle
----
   6.500  broker-1   hears from ZooKeeper: /controller deleted
   6.501  broker-1   hears from ZooKeeper: /controller created
   6.501  broker-1   wins the election: controller epoch 3
   6.502  broker-3   hears from ZooKeeper: /controller deleted
   6.503  broker-1   has read the cluster: brokers 1 3, 2 partitions
   6.504  broker-1   hears from controller 1 that brokers 1 3 live
   6.504  broker-1   sends LeaderAndIsr to broker 1 with 2 partitions
   6.504  broker-1   hears from controller 1 that brokers 1 3 live, and of 2 partitions
   6.505  broker-1   writes (isr-removal) orders-0: leader 1 epoch 1 ISR 1 3, orders-1: leader none epoch 1 ISR 3 1
   6.505  broker-1   sends LeaderAndIsr to broker 1 with 2 partitions
   6.505  broker-1   leads orders-0 at epoch 1, as controller 1 orders
   6.505  broker-1   fence broker.fetch-leader-epoch refuses Fetch orders-0 (offered 0, known 1)
   6.505  broker-1   hears from controller 1 that brokers 1 3 live, and of 2 partitions
   6.505  broker-1   writes (offline) orders-1: leader 3 epoch 2 ISR 3 1
   6.505  broker-1   has taken over at controller epoch 3
   6.505  broker-1   sends LeaderAndIsr to broker 1 with 1 partition
   6.505  broker-1   follows orders-1 at epoch 2, as controller 1 orders
   6.505  broker-1   hears from controller 1 that brokers 1 3 live, and of 1 partition
   6.509  broker-3   hears from controller 1 that brokers 1 3 live
   6.511  broker-1   sends LeaderAndIsr to broker 3 with 2 partitions
   6.517  broker-3   hears from controller 1 that brokers 1 3 live, and of 2 partitions
   6.518  broker-1   sends LeaderAndIsr to broker 3 with 2 partitions
   6.520  broker-3   follows orders-0 at epoch 1, as controller 1 orders
   6.524  broker-3   hears from controller 1 that brokers 1 3 live, and of 2 partitions
   6.525  broker-1   sends LeaderAndIsr to broker 3 with 1 partition
   6.527  broker-3   leads orders-1 at epoch 2, as controller 1 orders
   6.531  broker-3   hears from controller 1 that brokers 1 3 live, and of 1 partition
   9.224  simulator  continue broker-2
   9.224  broker-2   loses its connection to ZooKeeper
   9.227  broker-1   fence broker.fetch-leader-epoch refuses Fetch orders-0 (offered 0, known 1)
   9.313  broker-2   learns that its session has expired
   9.313  broker-2   resigns from controller epoch 2: the ZooKeeper session expired
   9.313  broker-2   opens a ZooKeeper session
   9.314  broker-1   hears from ZooKeeper: /brokers/ids children
   9.314  broker-1   finds brokers new 2
   9.314  broker-1   hears from controller 1 that brokers 1 2 3 live
   9.314  broker-1   hears from controller 1 that brokers 1 2 3 live, and of 2 partitions
   9.314  broker-2   is registered, broker epoch 78
   9.316  broker-3   hears from controller 1 that brokers 1 2 3 live
   9.320  broker-3   hears from controller 1 that brokers 1 2 3 live, and of 2 partitions
   9.322  broker-2   hears from controller 1 that brokers 1 2 3 live, and of 2 partitions
   9.325  broker-1   sends LeaderAndIsr to broker 2 with 2 partitions
   9.328  broker-2   follows orders-0 at epoch 1, orders-1 at epoch 2, as controller 1 orders
   9.328  broker-2   fence broker.fetch-leader-epoch refuses Fetch orders-1 (offered 0, known 2)
   9.328  broker-2   fence broker.fetch-leader-epoch refuses Fetch orders-1 (offered 0, known 2)
   9.328  broker-2   fence broker.fetch-leader-epoch refuses Fetch orders-1 (offered 0, known 2)
   9.330  broker-1   proposes ISR 1 3 2 for orders-0
   9.331  broker-1   writes (alter-partition) orders-0: leader 1 epoch 1 ISR 1 3 2
   9.331  broker-1   hears from controller 1 that brokers 1 2 3 live, and of 1 partition
   9.331  broker-1   is answered NONE for orders-0: ISR 1 3 2
   9.332  broker-3   proposes ISR 3 1 2 for orders-1
   9.333  broker-2   hears from controller 1 that brokers 1 2 3 live, and of 2 partitions
   9.334  broker-3   hears from controller 1 that brokers 1 2 3 live, and of 1 partition
   9.338  broker-2   hears from controller 1 that brokers 1 2 3 live, and of 1 partition
   9.341  broker-1   writes (alter-partition) orders-1: leader 3 epoch 2 ISR 3 1 2
   9.341  broker-1   hears from controller 1 that brokers 1 2 3 live, and of 1 partition
   9.343  broker-3   hears from controller 1 that brokers 1 2 3 live, and of 1 partition
   9.343  broker-3   is answered NONE for orders-1: ISR 3 1 2
   9.343  broker-2   hears from controller 1 that brokers 1 2 3 live, and of 1 partition
  14.221  = controller 1 epoch 3; leaders (ISR): orders-0 1 (1 3 2), orders-1 3 (3 1 2)
