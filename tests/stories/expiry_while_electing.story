# The session of a candidate expires while it reads the cluster: elected, and at once no longer. Its own writes fail, it
# resigns, opens another session, registers again and joins the next race as anybody else.

cluster brokers=3 seed=3
topic orders 0:1,2,3 1:2,3,1
settle
call controller first
----
   0.221  = controller 1 epoch 1; leaders (ISR): orders-0 1 (1 2 3), orders-1 2 (2 3 1)

arm 1 failover.after_epoch pause 9s
arm 2 failover.after_epoch pause 9s
arm 3 failover.after_epoch pause 9s
expire first
advance 4s
----
   0.221  simulator  expire broker-1 (controller)
   0.221  broker-1   hears from ZooKeeper: /brokers/ids/1 deleted
   0.221  broker-1   hears from ZooKeeper: /brokers/ids children
   0.221  broker-1   hears from ZooKeeper: /controller deleted
   0.221  broker-1   loses its connection to ZooKeeper
   0.221  broker-2   hears from ZooKeeper: /controller deleted
   0.223  broker-3   hears from ZooKeeper: /controller deleted
   0.223  broker-2   hears from ZooKeeper: /controller created
   0.224  broker-2   wins the election: controller epoch 2
   0.224  broker-2   reaches failover.after_epoch: pause
   0.224  simulator  pause broker-2 (controller)
   0.344  broker-1   learns that its session has expired
   0.344  broker-1   resigns from controller epoch 1: the ZooKeeper session expired
   0.344  broker-1   opens a ZooKeeper session
   0.345  broker-1   is registered, broker epoch 71
   4.221  = controller 2 epoch 2; leaders (ISR): orders-0 1 (1 2 3), orders-1 2 (2 3 1)

advance 10s
settle
----
   6.500  broker-1   hears from ZooKeeper: /controller deleted
   6.501  broker-1   hears from ZooKeeper: /controller created
   6.501  broker-1   wins the election: controller epoch 3
   6.501  broker-1   reaches failover.after_epoch: pause
   6.501  simulator  pause broker-1 (controller)
   6.502  broker-3   hears from ZooKeeper: /controller deleted
   9.224  simulator  continue broker-2
   9.224  broker-2   loses its connection to ZooKeeper
   9.333  broker-2   learns that its session has expired
   9.333  broker-2   resigns from controller epoch 2: the ZooKeeper session expired
   9.333  broker-2   opens a ZooKeeper session
   9.334  broker-2   is registered, broker epoch 75
  13.000  broker-2   hears from ZooKeeper: /controller deleted
  13.002  broker-2   hears from ZooKeeper: /controller created
  13.002  broker-2   wins the election: controller epoch 4
  13.002  broker-3   hears from ZooKeeper: /controller deleted
  13.007  broker-2   has read the cluster: brokers 2 3, 2 partitions
  13.007  broker-2   hears from controller 2: brokers 2 3 live
  13.007  broker-2   sends LeaderAndIsr to broker 2 with 2 partitions
  13.007  broker-2   hears from controller 2: brokers 2 3 live; orders-0: leader 1 epoch 0 ISR 1 2 3, orders-1: leader 2 epoch 0 ISR 2 3 1
  13.008  broker-2   writes (isr-removal) orders-0: leader none epoch 1 ISR 2 3, orders-1: leader 2 epoch 1 ISR 2 3
  13.008  broker-2   sends LeaderAndIsr to broker 2 with 2 partitions
  13.008  broker-2   leads orders-1 at epoch 1, as controller 2 orders
  13.008  broker-2   fence broker.fetch-leader-epoch refuses Fetch orders-1 (offered 0, known 1)
  13.008  broker-2   hears from controller 2: brokers 2 3 live; orders-0: leader none epoch 1 ISR 2 3, orders-1: leader 2 epoch 1 ISR 2 3
  13.009  broker-2   writes (offline) orders-0: leader 2 epoch 2 ISR 2 3
  13.009  broker-2   has taken over at controller epoch 4
  13.009  broker-2   sends LeaderAndIsr to broker 2 with 1 partition
  13.009  broker-2   leads orders-0 at epoch 2, as controller 2 orders
  13.009  broker-2   hears from controller 2: brokers 2 3 live; orders-0: leader 2 epoch 2 ISR 2 3
  13.011  broker-3   hears from controller 2: brokers 2 3 live
  13.014  broker-2   sends LeaderAndIsr to broker 3 with 2 partitions
  13.018  broker-3   hears from controller 2: brokers 2 3 live; orders-0: leader 1 epoch 0 ISR 1 2 3, orders-1: leader 2 epoch 0 ISR 2 3 1
  13.021  broker-2   sends LeaderAndIsr to broker 3 with 2 partitions
  13.021  broker-3   follows orders-1 at epoch 1, as controller 2 orders
  13.025  broker-3   hears from controller 2: brokers 2 3 live; orders-0: leader none epoch 1 ISR 2 3, orders-1: leader 2 epoch 1 ISR 2 3
  13.027  broker-2   sends LeaderAndIsr to broker 3 with 1 partition
  13.028  broker-3   follows orders-0 at epoch 2, as controller 2 orders
  13.031  broker-3   hears from controller 2: brokers 2 3 live; orders-0: leader 2 epoch 2 ISR 2 3
  14.221  = controller 2 epoch 4; leaders (ISR): orders-0 2 (2 3), orders-1 2 (2 3)
