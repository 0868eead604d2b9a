// Drives franz-go as ../README.md says: an admin client, a producer and a consumer, held open until standard input is
// closed.
//
//	go run . localhost:9092 orders
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	sendEvery    = 50 * time.Millisecond
	createEvery  = time.Second
	createWithin = 5 * time.Second
	delivery     = 60 * time.Second
	readToTheEnd = 10 * time.Second
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

type driver struct {
	topic              string
	admin              *kadm.Client
	producer, consumer *kgo.Client
	lastSent, lastRead atomic.Int64
}

func client(bootstrap string, options ...kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(append(options, kgo.SeedBrokers(strings.Split(bootstrap, ",")...))...)
	if err != nil {
		panic(err)
	}
	return made
}

func main() {
	bootstrap, topic := os.Args[1], os.Args[2]
	beginning := map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}
	d := &driver{
		topic: topic,
		admin: kadm.NewClient(client(bootstrap)),
		// A producer is idempotent and has acks=all unless it is configured otherwise.
		producer: client(bootstrap, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RecordDeliveryTimeout(delivery)),
		consumer: client(bootstrap, kgo.ConsumePartitions(beginning)),
	}
	d.lastSent.Store(-1)
	d.lastRead.Store(-1)
	emit("ready", map[string]any{"client": "franz-go", "version": version("github.com/twmb/franz-go")})

	stopping, stop := context.WithCancel(context.Background())
	reading, stopReading := context.WithCancel(context.Background())
	var producing, consuming sync.WaitGroup
	producing.Add(1)
	consuming.Add(1)
	go func() { defer producing.Done(); d.produce(stopping) }()
	go func() { defer consuming.Done(); d.read(reading) }()
	go d.createTopics(stopping)

	io.Copy(io.Discard, os.Stdin)
	stop()
	producing.Wait()
	flushing, cancel := context.WithTimeout(context.Background(), delivery)
	defer cancel()
	d.producer.Flush(flushing)
	for deadline := time.Now().Add(readToTheEnd); d.lastRead.Load() < d.lastSent.Load() && time.Now().Before(deadline); {
		time.Sleep(sendEvery)
	}
	stopReading()
	consuming.Wait()
	d.producer.Close()
	d.consumer.Close()
	emit("end", nil)
}

func (d *driver) produce(stopping context.Context) {
	ticker := time.NewTicker(sendEvery)
	defer ticker.Stop()
	for value := 0; ; value++ {
		select {
		case <-stopping.Done():
			return
		case <-ticker.C:
		}
		record := &kgo.Record{Topic: d.topic, Partition: 0, Value: []byte(strconv.Itoa(value))}
		d.producer.Produce(context.Background(), record, func(sent *kgo.Record, err error) {
			if err != nil {
				emit("failed", map[string]any{"value": value, "error": nameOf(err)})
				return
			}
			d.lastSent.Store(max(d.lastSent.Load(), sent.Offset))
			emit("sent", map[string]any{"value": value, "offset": sent.Offset})
		})
	}
}

func (d *driver) read(reading context.Context) {
	for reading.Err() == nil {
		d.consumer.PollFetches(reading).EachRecord(func(record *kgo.Record) {
			value, _ := strconv.Atoi(string(record.Value))
			d.lastRead.Store(record.Offset)
			emit("read", map[string]any{"value": value, "offset": record.Offset})
		})
	}
}

func (d *driver) createTopics(stopping context.Context) {
	for number := 0; stopping.Err() == nil; number++ {
		time.Sleep(createEvery)
		begun := time.Now()
		attempt, cancel := context.WithTimeout(context.Background(), createWithin)
		_, err := d.admin.CreateTopic(attempt, 1, 1, nil, fmt.Sprintf("%s-admin-%d", d.topic, number))
		cancel()
		fields := map[string]any{"ok": err == nil, "error": nil, "took_ms": time.Since(begun).Milliseconds()}
		if err != nil {
			fields["error"] = nameOf(err)
		}
		emit("admin", fields)
	}
}

func nameOf(err error) string {
	var kafka *kerr.Error
	if errors.As(err, &kafka) {
		return kafka.Message
	}
	var network *net.OpError
	if errors.As(err, &network) {
		return network.Op + ": " + network.Err.Error() // without the address
	}
	return err.Error()
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
