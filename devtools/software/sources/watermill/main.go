// Copies a topic with a router of Watermill: watermill BOOTSTRAP SOURCE SINK.
package main

import (
	"context"
	"log"
	"os"
	"strings"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
)

func main() {
	brokers := strings.Split(os.Args[1], ",")
	logger := watermill.NewStdLogger(false, false)
	reading := kafka.DefaultSaramaSubscriberConfig()
	reading.Consumer.Offsets.Initial = sarama.OffsetOldest
	subscriber, err := kafka.NewSubscriber(kafka.SubscriberConfig{
		Brokers: brokers, Unmarshaler: kafka.DefaultMarshaler{}, ConsumerGroup: "watermill-copy",
		OverwriteSaramaConfig: reading,
	}, logger)
	if err != nil {
		log.Fatal(err)
	}
	writing := kafka.DefaultSaramaSyncPublisherConfig()
	writing.Producer.RequiredAcks = sarama.WaitForAll
	publisher, err := kafka.NewPublisher(kafka.PublisherConfig{
		Brokers: brokers, Marshaler: kafka.DefaultMarshaler{}, OverwriteSaramaConfig: writing,
	}, logger)
	if err != nil {
		log.Fatal(err)
	}
	router, err := message.NewRouter(message.RouterConfig{}, logger)
	if err != nil {
		log.Fatal(err)
	}
	router.AddHandler("copy", os.Args[2], subscriber, os.Args[3], publisher,
		func(read *message.Message) ([]*message.Message, error) {
			return []*message.Message{message.NewMessage(watermill.NewUUID(), read.Payload)}, nil
		})
	if err := router.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
}
