# A controller stands still between its write and its requests, longer than its session lasts. When it wakes, its successor
# rules: what the zombie still sends is refused by every broker, what it still writes by ZooKeeper.

cluster brokers=3 seed=2
topic orders 0:1,2,3 1:2,3,1 2:3,1,2
settle
call controller zombie
----
   0.226  = controller 2 epoch 1; leaders (ISR): orders-0 1 (1 2 3), orders-1 2 (2 3 1), orders-2 3 (3 1 2)

arm zombie partition.after_write pause 14s
bounce leader(orders/0) 8s
advance 9s
----
   0.226  simulator  kill broker-1
   6.501  broker-2   hears from ZooKeeper: /brokers/ids/1 deleted
   6.502  broker-2   hears from ZooKeeper: /brokers/ids children
   6.504  broker-2   finds brokers dead 1
   6.506  broker-2   reaches partition.after_write: pause
   6.506  simulator  pause broker-2 (controller)
   8.226  simulator  start broker-1
   8.230  broker-1   opens a ZooKeeper session
   8.246  broker-1   is registered, broker epoch 70
   9.226  = controller 2 epoch 1; leaders (ISR): orders-0 2 (2 3), orders-1 2 (2 3 1), orders-2 3 (3 1 2)

advance 8s
settle
----
  13.003  broker-1   hears from ZooKeeper: /controller deleted
  13.003  broker-3   hears from ZooKeeper: /controller deleted
  13.018  broker-3   hears from ZooKeeper: /controller created
  13.018  broker-1   hears from ZooKeeper: /controller created
  13.019  broker-1   wins the election: controller epoch 2
  13.032  broker-3   finds broker 1 elected
  13.057  broker-1   has read the cluster: brokers 1 3, 3 partitions
  13.061  broker-1   hears from controller 1: brokers 1 3 live
  13.061  broker-1   sends LeaderAndIsr to broker 1 with 3 partitions
  13.061  broker-1   follows orders-2 at epoch 0, as controller 1 orders
  13.061  broker-1   hears from controller 1: brokers 1 3 live; orders-0: leader 2 epoch 1 ISR 2 3, orders-1: leader 2 epoch 0 ISR 2 3 1, orders-2: leader 3 epoch 0 ISR 3 1 2
  13.066  broker-1   writes (isr-removal) orders-0: leader none epoch 2 ISR 3, orders-1: leader none epoch 1 ISR 3 1, orders-2: leader 3 epoch 1 ISR 3 1
  13.066  broker-1   sends LeaderAndIsr to broker 1 with 3 partitions
  13.066  broker-1   follows orders-2 at epoch 1, as controller 1 orders
  13.066  broker-1   hears from controller 1: brokers 1 3 live; orders-0: leader none epoch 2 ISR 3, orders-1: leader none epoch 1 ISR 3 1, orders-2: leader 3 epoch 1 ISR 3 1
  13.069  broker-3   hears from controller 1: brokers 1 3 live
  13.070  broker-1   writes (offline) orders-0: leader 3 epoch 3 ISR 3, orders-1: leader 3 epoch 2 ISR 3 1
  13.070  broker-1   has taken over at controller epoch 2
  13.070  broker-1   sends LeaderAndIsr to broker 1 with 2 partitions
  13.070  broker-1   follows orders-0 at epoch 3, orders-1 at epoch 2, as controller 1 orders
  13.070  broker-1   hears from controller 1: brokers 1 3 live; orders-0: leader 3 epoch 3 ISR 3, orders-1: leader 3 epoch 2 ISR 3 1
  13.072  broker-1   sends LeaderAndIsr to broker 3 with 3 partitions
  13.080  broker-3   hears from controller 1: brokers 1 3 live; orders-0: leader 2 epoch 1 ISR 2 3, orders-1: leader 2 epoch 0 ISR 2 3 1, orders-2: leader 3 epoch 0 ISR 3 1 2
  13.082  broker-1   sends LeaderAndIsr to broker 3 with 3 partitions
  13.084  broker-3   leads orders-2 at epoch 1, as controller 1 orders
  13.084  broker-3   fence broker.fetch-leader-epoch refuses Fetch orders-2 (offered 0, known 1)
  13.090  broker-3   hears from controller 1: brokers 1 3 live; orders-0: leader none epoch 2 ISR 3, orders-1: leader none epoch 1 ISR 3 1, orders-2: leader 3 epoch 1 ISR 3 1
  13.092  broker-1   sends LeaderAndIsr to broker 3 with 2 partitions
  13.094  broker-3   leads orders-0 at epoch 3, orders-1 at epoch 2, as controller 1 orders
  13.100  broker-3   hears from controller 1: brokers 1 3 live; orders-0: leader 3 epoch 3 ISR 3, orders-1: leader 3 epoch 2 ISR 3 1
  14.105  broker-3   proposes ISR 3 1 for orders-0
  14.122  broker-1   writes (alter-partition) orders-0: leader 3 epoch 3 ISR 3 1
  14.122  broker-1   hears from controller 1: brokers 1 3 live; orders-0: leader 3 epoch 3 ISR 3 1
  14.124  broker-3   hears from controller 1: brokers 1 3 live; orders-0: leader 3 epoch 3 ISR 3 1
  14.124  broker-3   is answered NONE for orders-0: ISR 3 1
  17.226  = controller 1 epoch 2; leaders (ISR): orders-0 3 (3 1), orders-1 3 (3 1), orders-2 3 (3 1)
