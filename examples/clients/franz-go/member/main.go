// Is a member of a group with franz-go as ../../README.md says, until standard input is closed.
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

	"github.com/twmb/franz-go/pkg/kgo"
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

func emitPartitions(event string) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
		numbers := []int32{}
		for _, some := range partitions {
			numbers = append(numbers, some...)
		}
		slices.Sort(numbers)
		emit(event, map[string]any{"partitions": numbers})
	}
}

func main() {
	bootstrap, topic, group := os.Args[1], os.Args[2], os.Args[3]
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.ConsumeTopics(topic),
		kgo.ConsumerGroup(group),
		kgo.OnPartitionsAssigned(emitPartitions("assigned")),
		kgo.OnPartitionsRevoked(emitPartitions("revoked")),
		kgo.OnPartitionsLost(emitPartitions("revoked")),
	)
	if err != nil {
		panic(err)
	}
	emit("ready", map[string]any{"client": "franz-go", "version": version("github.com/twmb/franz-go")})
	reading, stop := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	for reading.Err() == nil {
		fetches := client.PollFetches(reading)
		fetches.EachError(func(_ string, _ int32, err error) {
			if reading.Err() == nil {
				emit("error", map[string]any{"error": err.Error()})
			}
		})
		fetches.EachRecord(func(record *kgo.Record) {
			value, _ := strconv.Atoi(string(record.Value))
			emit("read", map[string]any{"value": value, "offset": record.Offset, "partition": record.Partition})
		})
	}
	if err := client.CommitUncommittedOffsets(context.Background()); err != nil {
		emit("error", map[string]any{"error": err.Error()})
	}
	client.Close()
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
