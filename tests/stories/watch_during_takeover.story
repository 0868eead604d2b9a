# Another broker dies while the new controller takes over. The watch fires during the takeover; the event waits in the
# queue, and when it is handled, the list of brokers is read again.

cluster brokers=4 seed=6
topic orders 0:1,2,3 1:2,3,4 2:3,4,1 3:4,1,2
settle
call controller first
----
   0.220 s  = controller 3 epoch 1; leaders (ISR): orders-0 1 (1 2 3), orders-1 2 (2 3 4), orders-2 3 (3 4 1), orders-3 4 (4 1 2)

arm 2 metadata.after_flush pause 2s
arm 1 metadata.after_flush pause 2s
arm 4 metadata.after_flush pause 2s
kill first
expire first
advance 1s
----
   0.220 s  simulator  kill broker-3 (controller)
   0.220 s  simulator  expire broker-3 (controller)
   0.221 s  broker-2   receives a watch notification: /controller deleted
   0.221 s  broker-1   receives a watch notification: /controller deleted
   0.222 s  broker-4   receives a watch notification: /controller deleted
   0.228 s  broker-2   receives a watch notification: /controller created
   0.229 s  broker-1   receives a watch notification: /controller created
   0.229 s  broker-4   receives a watch notification: /controller created
   0.229 s  broker-2   wins the election: controller epoch 2
   0.243 s  broker-4   finds that broker 2 is the controller
   0.244 s  broker-1   finds that broker 2 is the controller
   0.248 s  broker-2   loads the controller context: live brokers 1 2 4, 4 partitions
   0.249 s  broker-2   reaches metadata.after_flush: pause
   0.249 s  simulator  pause broker-2 (controller)
   1.220 s  = controller 2 epoch 2; leaders (ISR): orders-0 1 (1 2 3), orders-1 2 (2 3 4), orders-2 3 (3 4 1), orders-3 4 (4 1 2)

kill leader(orders/3)
expire 4
advance 500ms
----
   1.220 s  simulator  kill broker-4
   1.220 s  simulator  expire broker-4
   1.720 s  = controller 2 epoch 2; leaders (ISR): orders-0 1 (1 2 3), orders-1 2 (2 3 4), orders-2 3 (3 4 1), orders-3 4 (4 1 2)

advance 3s
----
   2.249 s  simulator  resume broker-2 (controller)
   2.249 s  broker-2   receives a watch notification: /brokers/ids/4 deleted
   2.249 s  broker-2   receives a watch notification: /brokers/ids children
   2.249 s  broker-2   applies UpdateMetadata from controller 2: live brokers 1 2 4
   2.249 s  broker-2   sends LeaderAndIsr to broker 2 with 3 partitions
   2.249 s  broker-2   applies UpdateMetadata from controller 2: live brokers 1 2 4, 4 partitions
   2.252 s  broker-2   writes (isr-removal) orders-0: leader 1 epoch 1 ISR 1 2, orders-1: leader 2 epoch 1 ISR 2 4, orders-2: leader none epoch 1 ISR 4 1
   2.252 s  broker-2   sends LeaderAndIsr to broker 2 with 2 partitions
   2.252 s  broker-2   applies LeaderAndIsr from controller 2: leads orders-1 at epoch 1 and follows orders-0 at epoch 1
   2.252 s  broker-2   applies UpdateMetadata from controller 2: live brokers 1 2 4, 3 partitions
   2.253 s  broker-1   applies UpdateMetadata from controller 2: live brokers 1 2 4
   2.254 s  broker-2   writes (offline) orders-2: leader 4 epoch 2 ISR 4 1
   2.254 s  broker-2   is ready to serve as controller, epoch 2
   2.254 s  broker-2   applies UpdateMetadata from controller 2: live brokers 1 2 4, 1 partition
   2.256 s  broker-2   sends LeaderAndIsr to broker 1 with 3 partitions
   2.260 s  broker-1   applies UpdateMetadata from controller 2: live brokers 1 2 4, 4 partitions
   2.263 s  broker-2   sends LeaderAndIsr to broker 1 with 2 partitions
   2.264 s  broker-1   applies LeaderAndIsr from controller 2: leads orders-0 at epoch 1
   2.264 s  broker-1   answers Fetch orders-0 with FENCED_LEADER_EPOCH: leader epoch 0 is over, 1 is current
   2.267 s  broker-1   applies UpdateMetadata from controller 2: live brokers 1 2 4, 3 partitions
   2.269 s  broker-2   finds dead brokers 4
   2.270 s  broker-2   sends LeaderAndIsr to broker 1 with 1 partition
   2.271 s  broker-1   applies LeaderAndIsr from controller 2: follows orders-2 at epoch 2
   2.271 s  broker-2   writes (offline) orders-2: leader 1 epoch 3 ISR 1, orders-3: leader 1 epoch 1 ISR 1 2
   2.271 s  broker-2   sends LeaderAndIsr to broker 2 with 1 partition
   2.271 s  broker-2   applies LeaderAndIsr from controller 2: follows orders-3 at epoch 1
   2.271 s  broker-2   applies UpdateMetadata from controller 2: live brokers 1 2, 2 partitions
   2.273 s  broker-2   writes (isr-removal) orders-1: leader 2 epoch 2 ISR 2
   2.273 s  broker-2   sends LeaderAndIsr to broker 2 with 2 partitions
   2.273 s  broker-2   applies LeaderAndIsr from controller 2: leads orders-1 at epoch 2
   2.273 s  broker-2   applies UpdateMetadata from controller 2: live brokers 1 2, 3 partitions
   2.274 s  broker-1   applies UpdateMetadata from controller 2: live brokers 1 2 4, 1 partition
   2.276 s  broker-2   sends LeaderAndIsr to broker 1 with 2 partitions
   2.277 s  broker-1   applies LeaderAndIsr from controller 2: leads orders-2 at epoch 3, orders-3 at epoch 1
   2.281 s  broker-1   applies UpdateMetadata from controller 2: live brokers 1 2, 2 partitions
   2.283 s  broker-2   sends LeaderAndIsr to broker 1 with 2 partitions
   2.288 s  broker-1   applies UpdateMetadata from controller 2: live brokers 1 2, 3 partitions
   4.720 s  = controller 2 epoch 2; leaders (ISR): orders-0 1 (1 2), orders-1 2 (2), orders-2 1 (1), orders-3 1 (1 2)
