// Is a member of a group with sarama as ../../README.md says, until standard input is closed.
//
//	go run ./member localhost:9092 orders readers
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/IBM/sarama"
)

var printing sync.Mutex

func emit(event string, fields map[string]any) {
	line := map[string]any{"event": event}
	for key, value := range fields {
		line[key] = value
	}
	text, _ := json.Marshal(line)
	printing.Lock()
	defer printing.Unlock()
	fmt.Println(string(text))
}

type member struct{}

func (member) Setup(session sarama.ConsumerGroupSession) error {
	emitPartitions("assigned", session)
	return nil
}

func (member) Cleanup(session sarama.ConsumerGroupSession) error {
	emitPartitions("revoked", session)
	return nil
}

func (member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case record, isOpen := <-claim.Messages():
			if !isOpen {
				return nil
			}
			value, _ := strconv.Atoi(string(record.Value))
			emit("read", map[string]any{"value": value, "offset": record.Offset, "partition": record.Partition})
			session.MarkMessage(record, "")
		case <-session.Context().Done():
			return nil
		}
	}
}

func emitPartitions(event string, session sarama.ConsumerGroupSession) {
	numbers := []int32{}
	for _, some := range session.Claims() {
		numbers = append(numbers, some...)
	}
	slices.Sort(numbers)
	emit(event, map[string]any{"partitions": numbers})
}

func main() {
	bootstrap, topic, name := strings.Split(os.Args[1], ","), os.Args[2], os.Args[3]
	config := sarama.NewConfig()
	config.Version = sarama.V3_6_0_0
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	group, err := sarama.NewConsumerGroup(bootstrap, name, config)
	if err != nil {
		panic(err)
	}
	emit("ready", map[string]any{"client": "sarama", "version": version("github.com/IBM/sarama")})
	reading, stop := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	for reading.Err() == nil {
		if err := group.Consume(reading, []string{topic}, member{}); err != nil && reading.Err() == nil {
			emit("error", map[string]any{"error": strings.TrimPrefix(err.Error(), "kafka server: ")})
		}
	}
	group.Close()
	emit("end", nil)
}

func version(module string) string {
	if built, ok := debug.ReadBuildInfo(); ok {
		for _, dependency := range built.Deps {
			if dependency.Path == module {
				return strings.TrimPrefix(dependency.Version, "v")
			}
		}
	}
	return "unknown"
}
