// Copies a topic with segmentio's kafka-go: kafka-go BOOTSTRAP SOURCE SINK.
package main

import (
	"context"
	"log"
	"os"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
)

func main() {
	brokers := strings.Split(os.Args[1], ",")
	ctx := context.Background()
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: brokers, GroupID: "kafka-go-copy", Topic: os.Args[2], StartOffset: kafka.FirstOffset,
		MaxWait: 500 * time.Millisecond,
	})
	writer := &kafka.Writer{
		Addr: kafka.TCP(brokers...), Topic: os.Args[3], RequiredAcks: kafka.RequireAll,
		BatchTimeout: 5 * time.Millisecond,
	}
	for {
		message, err := reader.FetchMessage(ctx)
		if err != nil {
			log.Printf("fetch: %v", err)
			time.Sleep(200 * time.Millisecond)
			continue
		}
		for {
			err = writer.WriteMessages(ctx, kafka.Message{Key: message.Key, Value: message.Value})
			if err == nil {
				break
			}
			log.Printf("write: %v", err)
			time.Sleep(200 * time.Millisecond)
		}
		if err := reader.CommitMessages(ctx, message); err != nil {
			log.Printf("commit: %v", err)
		}
	}
}
