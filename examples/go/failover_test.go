// Package failover has the tests of a Kafka client in Go across two failovers, over the control port of Understudy.
//
//	understudy up --control 127.0.0.1:0 --dir /tmp/cluster      # in another terminal
//	UNDERSTUDY_RUN=/tmp/cluster go test ./...
package failover

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// produce sends one record with a client that is held open, and returns its offset.
func produce(t *testing.T, client *kgo.Client, topic, value string) int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	record, err := client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(value)}).First()
	if err != nil {
		t.Fatalf("%s was not acknowledged: %v", value, err)
	}
	return record.Offset
}

// read returns the values from the beginning of partition 0 of a topic.
func read(t *testing.T, seeds []string, topic string, count int) []string {
	t.Helper()
	from := map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}
	client, err := kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.ConsumePartitions(from))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var values []string
	for len(values) < count {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("only %v could be read within a minute", values)
		}
		fetches.EachRecord(func(record *kgo.Record) { values = append(values, string(record.Value)) })
	}
	return values
}

// goesOn produces before and after a fault with one client, and reads both records.
func goesOn(t *testing.T, cluster *control, topic string, hurt func()) {
	t.Helper()
	cluster.waitForAllBrokers()
	cluster.post("/topics", map[string]any{"name": topic, "partitions": 1, "replication_factor": 3})
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.seeds()...), kgo.RequiredAcks(kgo.AllISRAcks()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	before := produce(t, client, topic, "before")
	hurt()
	after := produce(t, client, topic, "after")
	if after <= before {
		t.Fatalf("the record after the fault is at offset %d, the one before it at %d", after, before)
	}
	if values := read(t, cluster.seeds(), topic, 2); values[0] != "before" || values[1] != "after" {
		t.Fatalf("read %v", values)
	}
}

func TestTheProducerGoesOnWhenTheControllerIsKilled(t *testing.T) {
	cluster := newControl(t)
	goesOn(t, cluster, "go-controller", func() {
		killed := *cluster.state().Controller
		cluster.post("/verbs/kill", map[string]any{"target": "controller", "for": "3s"})
		cluster.waitForAnotherController(killed)
	})
}

func TestTheProducerGoesOnWhenItsLeaderIsKilled(t *testing.T) {
	cluster := newControl(t)
	goesOn(t, cluster, "go-leader", func() {
		cluster.post("/verbs/kill", map[string]any{"target": "leader:go-leader/0", "for": "3s"})
	})
}
