# The controller is killed. Nobody notices for the length of its session; then ZooKeeper deletes what it owned, both others
# race for /controller, one wins, reads the cluster, and finds its first work: the dead broker led a partition.

cluster brokers=3 seed=1
topic orders 0:1,2,3 1:2,3,1 2:3,1,2
settle
----
   0.242  = controller 1 epoch 1; leaders (ISR): orders-0 1 (1 2 3), orders-1 2 (2 3 1), orders-2 3 (3 1 2)

kill controller
advance 4s
----
   0.242  simulator  kill broker-1 (controller)
   4.242  = controller 1 epoch 1; leaders (ISR): orders-0 1 (1 2 3), orders-1 2 (2 3 1), orders-2 3 (3 1 2)

advance 6s
----
   6.502  broker-3   hears from ZooKeeper: /controller deleted
   6.502  broker-2   hears from ZooKeeper: /controller deleted
   6.512  broker-2   hears from ZooKeeper: /controller created
   6.512  broker-3   hears from ZooKeeper: /controller created
   6.512  broker-3   wins the election: controller epoch 2
   6.521  broker-2   finds broker 3 elected
   6.539  broker-3   has read the cluster: brokers 2 3, 3 partitions
   6.541  broker-3   hears from controller 3 that brokers 2 3 live
   6.541  broker-3   sends LeaderAndIsr to broker 3 with 3 partitions
   6.541  broker-3   hears from controller 3 that brokers 2 3 live, and of 3 partitions
   6.544  broker-3   writes (isr-removal) orders-0: leader none epoch 1 ISR 2 3, orders-1: leader 2 epoch 1 ISR 2 3, orders-2: leader 3 epoch 1 ISR 3 2
   6.544  broker-3   sends LeaderAndIsr to broker 3 with 3 partitions
   6.544  broker-3   leads orders-2 at epoch 1 and follows orders-1 at epoch 1, as controller 3 orders
   6.544  broker-3   fence broker.fetch-leader-epoch refuses Fetch orders-2 (offered 0, known 1)
   6.544  broker-3   hears from controller 3 that brokers 2 3 live, and of 3 partitions
   6.545  broker-2   hears from controller 3 that brokers 2 3 live
   6.546  broker-3   sends LeaderAndIsr to broker 2 with 3 partitions
   6.547  broker-3   writes (offline) orders-0: leader 2 epoch 2 ISR 2 3
   6.547  broker-3   has taken over at controller epoch 2
   6.547  broker-3   sends LeaderAndIsr to broker 3 with 1 partition
   6.547  broker-3   follows orders-0 at epoch 2, as controller 3 orders
   6.547  broker-3   hears from controller 3 that brokers 2 3 live, and of 1 partition
   6.550  broker-2   hears from controller 3 that brokers 2 3 live, and of 3 partitions
   6.552  broker-3   sends LeaderAndIsr to broker 2 with 3 partitions
   6.553  broker-2   leads orders-1 at epoch 1 and follows orders-2 at epoch 1, as controller 3 orders
   6.553  broker-2   fence broker.fetch-leader-epoch refuses Fetch orders-1 (offered 0, known 1)
   6.555  broker-2   hears from controller 3 that brokers 2 3 live, and of 3 partitions
   6.557  broker-3   sends LeaderAndIsr to broker 2 with 1 partition
   6.558  broker-2   leads orders-0 at epoch 2, as controller 3 orders
   6.561  broker-2   hears from controller 3 that brokers 2 3 live, and of 1 partition
  10.242  = controller 3 epoch 2; leaders (ISR): orders-0 2 (2 3), orders-1 2 (2 3), orders-2 3 (3 2)

restart 1
settle
----
  10.242  simulator  start broker-1
  10.243  broker-1   opens a ZooKeeper session
  10.252  broker-3   hears from ZooKeeper: /brokers/ids children
  10.253  broker-1   is registered, broker epoch 85
  10.257  broker-3   finds brokers new 1
  10.257  broker-3   hears from controller 3 that brokers 1 2 3 live
  10.257  broker-3   hears from controller 3 that brokers 1 2 3 live, and of 3 partitions
  10.258  broker-2   hears from controller 3 that brokers 1 2 3 live
  10.260  broker-1   hears from controller 3 that brokers 1 2 3 live, and of 3 partitions
  10.261  broker-3   sends LeaderAndIsr to broker 1 with 3 partitions
  10.261  broker-2   hears from controller 3 that brokers 1 2 3 live, and of 3 partitions
  10.262  broker-1   follows orders-0 at epoch 2, orders-1 at epoch 1, orders-2 at epoch 1, as controller 3 orders
  10.264  broker-1   hears from controller 3 that brokers 1 2 3 live, and of 3 partitions
  10.265  broker-3   proposes ISR 3 2 1 for orders-2
  10.265  broker-2   proposes ISR 2 3 1 for orders-0
  10.265  broker-2   proposes ISR 2 3 1 for orders-1
  10.267  broker-3   writes (alter-partition) orders-2: leader 3 epoch 1 ISR 3 2 1
  10.267  broker-3   is answered NONE for orders-2: ISR 3 2 1
  10.267  broker-3   hears from controller 3 that brokers 1 2 3 live, and of 1 partition
  10.269  broker-1   hears from controller 3 that brokers 1 2 3 live, and of 1 partition
  10.269  broker-2   hears from controller 3 that brokers 1 2 3 live, and of 1 partition
  10.275  broker-3   writes (alter-partition) orders-0: leader 2 epoch 2 ISR 2 3 1, orders-1: leader 2 epoch 1 ISR 2 3 1
  10.275  broker-3   hears from controller 3 that brokers 1 2 3 live, and of 2 partitions
  10.276  broker-1   hears from controller 3 that brokers 1 2 3 live, and of 2 partitions
  10.276  broker-2   hears from controller 3 that brokers 1 2 3 live, and of 2 partitions
  10.277  broker-2   is answered NONE for orders-0: ISR 2 3 1
  10.277  broker-2   is answered NONE for orders-1: ISR 2 3 1
  10.342  = controller 3 epoch 2; leaders (ISR): orders-0 2 (2 3 1), orders-1 2 (2 3 1), orders-2 3 (3 2 1)
