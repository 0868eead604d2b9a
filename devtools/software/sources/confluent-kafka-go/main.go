// Copies a topic with confluent-kafka-go: confluent-kafka-go BOOTSTRAP SOURCE SINK.
package main

import (
	"log"
	"os"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

func main() {
	consumer, err := kafka.NewConsumer(&kafka.ConfigMap{
		"bootstrap.servers": os.Args[1], "group.id": "confluent-kafka-go-copy", "auto.offset.reset": "earliest",
		"enable.auto.offset.store": false,
	})
	if err != nil {
		log.Fatal(err)
	}
	producer, err := kafka.NewProducer(&kafka.ConfigMap{
		"bootstrap.servers": os.Args[1], "acks": "all", "enable.idempotence": true,
	})
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		for event := range producer.Events() {
			message, isMessage := event.(*kafka.Message)
			if !isMessage {
				log.Print(event)
				continue
			}
			if message.TopicPartition.Error != nil {
				log.Fatalf("not delivered: %v", message.TopicPartition.Error)
			}
			if _, err := consumer.StoreMessage(message.Opaque.(*kafka.Message)); err != nil {
				log.Printf("not stored: %v", err)
			}
		}
	}()
	if err := consumer.Subscribe(os.Args[2], nil); err != nil {
		log.Fatal(err)
	}
	for {
		message, err := consumer.ReadMessage(time.Second)
		if err != nil {
			continue
		}
		err = producer.Produce(&kafka.Message{
			TopicPartition: kafka.TopicPartition{Topic: &os.Args[3], Partition: kafka.PartitionAny},
			Key:            message.Key, Value: message.Value, Opaque: message,
		}, nil)
		if err != nil {
			log.Fatal(err)
		}
	}
}
