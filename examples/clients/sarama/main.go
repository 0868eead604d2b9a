// Drives sarama as ../README.md says: an admin client, a producer and a consumer, held open until standard input is
// closed.
//
//	go run . localhost:9092 orders
package main

import (
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

	"github.com/IBM/sarama"
)

const (
	sendEvery    = 50 * time.Millisecond
	createEvery  = time.Second
	createWithin = 5 * time.Second
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
	admin              sarama.ClusterAdmin
	producer           sarama.AsyncProducer
	consumer           sarama.Consumer
	lastSent, lastRead atomic.Int64
	stopping           atomic.Bool
}

// must returns what a client's constructor has made.
func must[T any](made T, err error) T {
	if err != nil {
		panic(err)
	}
	return made
}

func config() *sarama.Config {
	made := sarama.NewConfig()
	made.Version = sarama.V3_6_0_0
	return made
}

func main() {
	bootstrap, topic := strings.Split(os.Args[1], ","), os.Args[2]
	administering := config()
	administering.Admin.Timeout = createWithin
	producing := config()
	producing.Producer.RequiredAcks = sarama.WaitForAll
	producing.Producer.Idempotent = true
	producing.Net.MaxOpenRequests = 1  // sarama asks for it where a producer is idempotent
	producing.Producer.Retry.Max = 600 // one attempt every 100 ms: sarama has no delivery time-out
	producing.Producer.Partitioner = sarama.NewManualPartitioner
	producing.Producer.Return.Successes = true
	d := &driver{
		topic:    topic,
		admin:    must(sarama.NewClusterAdmin(bootstrap, administering)),
		producer: must(sarama.NewAsyncProducer(bootstrap, producing)),
		consumer: must(sarama.NewConsumer(bootstrap, config())),
	}
	d.lastSent.Store(-1)
	d.lastRead.Store(-1)
	partition := must(d.consumer.ConsumePartition(topic, 0, sarama.OffsetOldest))
	emit("ready", map[string]any{"client": "sarama", "version": version("github.com/IBM/sarama")})

	var sending, delivering, reading sync.WaitGroup
	sending.Add(1)
	delivering.Add(2)
	reading.Add(1)
	go func() { defer sending.Done(); d.produce() }()
	go func() { defer delivering.Done(); d.successes() }()
	go func() { defer delivering.Done(); d.errors() }()
	go func() { defer reading.Done(); d.read(partition) }()
	go d.createTopics()

	io.Copy(io.Discard, os.Stdin)
	d.stopping.Store(true)
	sending.Wait()
	d.producer.AsyncClose()
	delivering.Wait()
	for deadline := time.Now().Add(readToTheEnd); d.lastRead.Load() < d.lastSent.Load() && time.Now().Before(deadline); {
		time.Sleep(sendEvery)
	}
	partition.AsyncClose()
	reading.Wait()
	d.consumer.Close()
	emit("end", nil)
}

func (d *driver) produce() {
	for value := 0; !d.stopping.Load(); value++ {
		time.Sleep(sendEvery)
		encoded := sarama.StringEncoder(strconv.Itoa(value))
		d.producer.Input() <- &sarama.ProducerMessage{Topic: d.topic, Partition: 0, Value: encoded, Metadata: value}
	}
}

func (d *driver) successes() {
	for sent := range d.producer.Successes() {
		d.lastSent.Store(max(d.lastSent.Load(), sent.Offset))
		emit("sent", map[string]any{"value": sent.Metadata, "offset": sent.Offset})
	}
}

func (d *driver) errors() {
	for failed := range d.producer.Errors() {
		emit("failed", map[string]any{"value": failed.Msg.Metadata, "error": nameOf(failed.Err)})
	}
}

func (d *driver) read(partition sarama.PartitionConsumer) {
	for record := range partition.Messages() {
		value, _ := strconv.Atoi(string(record.Value))
		d.lastRead.Store(record.Offset)
		emit("read", map[string]any{"value": value, "offset": record.Offset})
	}
}

func (d *driver) createTopics() {
	for number := 0; !d.stopping.Load(); number++ {
		time.Sleep(createEvery)
		begun := time.Now()
		err := d.createTopic(fmt.Sprintf("%s-admin-%d", d.topic, number))
		fields := map[string]any{"ok": err == nil, "error": nil, "took_ms": time.Since(begun).Milliseconds()}
		if err != nil {
			fields["error"] = nameOf(err)
		}
		emit("admin", fields)
	}
}

// createTopic gives an attempt up after 5 s: sarama bounds the request, and not its own attempts to connect.
func (d *driver) createTopic(name string) error {
	answered := make(chan error, 1)
	go func() {
		answered <- d.admin.CreateTopic(name, &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}, false)
	}()
	select {
	case err := <-answered:
		return err
	case <-time.After(createWithin):
		return errors.New("no answer")
	}
}

func nameOf(err error) string {
	var topic *sarama.TopicError
	if errors.As(err, &topic) {
		err = topic.Err
	}
	var kafka sarama.KError
	if errors.As(err, &kafka) {
		return strings.TrimPrefix(kafka.Error(), "kafka server: ")
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
