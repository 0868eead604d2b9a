// Package failover has tests that start Understudy in place of confluent-local with testcontainers-go: one broker, and
// three of which the controller is killed.
//
//	docker tag understudy understudy:7.9.0
//	UNDERSTUDY_IMAGE=understudy:7.9.0 go test ./...
package failover

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/modules/kafka"
	"github.com/testcontainers/testcontainers-go/network"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const topic = "orders"

func image() string {
	if name := os.Getenv("UNDERSTUDY_IMAGE"); name != "" {
		return name
	}
	return "understudy:7.9.0"
}

// started fails the test if err is set, and has the container removed at its end.
func started(t *testing.T, one testcontainers.Container, err error) {
	t.Helper()
	testcontainers.CleanupContainer(t, one)
	if err != nil {
		t.Fatal(err)
	}
}

// goesOn produces before and after an event, and reads both records.
func goesOn(ctx context.Context, t *testing.T, brokers []string, replicas int16, happen func(*kadm.Client)) {
	t.Helper()
	// The client answers questions about the controller from metadata of this age.
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.MetadataMinAge(time.Second), kgo.MetadataMaxAge(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(ctx, 1, replicas, nil, topic); err != nil {
		t.Fatal(err)
	}
	produce(ctx, t, client, "before")
	happen(admin)
	produce(ctx, t, client, "after")
	if values := read(ctx, t, brokers, 2); !slices.Equal(values, []string{"before", "after"}) {
		t.Fatalf("read %v", values)
	}
}

func produce(ctx context.Context, t *testing.T, client *kgo.Client, value string) {
	t.Helper()
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(value)}).FirstErr(); err != nil {
		t.Fatalf("%s was not acknowledged: %v", value, err)
	}
}

func read(ctx context.Context, t *testing.T, brokers []string, count int) []string {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(topic), kgo.ConsumerGroup("readers"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var values []string
	for len(values) < count {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("only %v could be read in time", values)
		}
		fetches.EachRecord(func(record *kgo.Record) { values = append(values, string(record.Value)) })
	}
	return values
}

// controller returns the id of the controller, as soon as it is another broker than before.
func controller(ctx context.Context, t *testing.T, admin *kadm.Client, before int32) int32 {
	t.Helper()
	for ctx.Err() == nil {
		if found, err := admin.BrokerMetadata(ctx); err == nil && found.Controller >= 0 && found.Controller != before {
			return found.Controller
		}
		time.Sleep(200 * time.Millisecond)
	}
	t.Fatalf("no controller other than %d in time", before)
	return -1
}

func TestOneContainer(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	one, err := kafka.Run(ctx, image())
	started(t, one, err)
	brokers, err := one.Brokers(ctx)
	if err != nil {
		t.Fatal(err)
	}
	goesOn(ctx, t, brokers, 1, func(*kadm.Client) {})
}

func TestThreeContainersGoOnWhenTheControllerIsKilled(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	together, err := network.New(ctx)
	if err != nil {
		t.Fatal(err)
	}
	testcontainers.CleanupNetwork(t, together)
	zookeeper, err := testcontainers.Run(ctx, image(), network.WithNetwork([]string{"zookeeper"}, together),
		testcontainers.WithEnv(map[string]string{"ZOOKEEPER_CLIENT_PORT": "2181"}))
	started(t, zookeeper, err)

	containers := map[int32]*kafka.KafkaContainer{}
	var brokers []string
	for id := int32(1); id <= 3; id++ {
		one, err := kafka.Run(ctx, image(), network.WithNetwork([]string{fmt.Sprintf("broker-%d", id)}, together),
			testcontainers.WithEnv(map[string]string{
				"KAFKA_BROKER_ID": fmt.Sprint(id),
				"KAFKA_NODE_ID":   fmt.Sprint(id),
				// In place of KRaft's quorum: the controller is one of the brokers, and each of them can be killed.
				"KAFKA_ZOOKEEPER_CONNECT":            "zookeeper:2181",
				"KAFKA_ZOOKEEPER_SESSION_TIMEOUT_MS": "6000",
			}))
		started(t, one, err)
		addresses, err := one.Brokers(ctx)
		if err != nil {
			t.Fatal(err)
		}
		containers[id] = one
		brokers = append(brokers, addresses...)
	}
	goesOn(ctx, t, brokers, 3, func(admin *kadm.Client) {
		killed := controller(ctx, t, admin, -1)
		engine, err := testcontainers.NewDockerClientWithOpts(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer engine.Close()
		if err := engine.ContainerKill(ctx, containers[killed].GetContainerID(), "SIGKILL"); err != nil {
			t.Fatal(err)
		}
		controller(ctx, t, admin, killed)
	})
}
