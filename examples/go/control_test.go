package failover

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// control is the control port of a cluster that `understudy up` runs.
type control struct {
	t       *testing.T
	address string
	token   string
}

// state is what GET /cluster answers, as far as these tests use it.
type state struct {
	Bootstrap  string `json:"bootstrap"`
	Controller *int   `json:"controller"`
	Brokers    []struct {
		Registered bool `json:"registered"`
	} `json:"brokers"`
}

// newControl reads the address and the token from control.json in the run folder, which UNDERSTUDY_RUN names.
func newControl(t *testing.T) *control {
	t.Helper()
	folder := os.Getenv("UNDERSTUDY_RUN")
	if folder == "" {
		t.Fatal("UNDERSTUDY_RUN is not set; give it the run folder of `understudy up --control 127.0.0.1:0 --dir FOLDER`")
	}
	data, err := os.ReadFile(filepath.Join(folder, "control.json"))
	if err != nil {
		t.Fatal(err)
	}
	var entry struct {
		Host  string `json:"host"`
		Port  int    `json:"port"`
		Token string `json:"token"`
	}
	if err := json.Unmarshal(data, &entry); err != nil {
		t.Fatal(err)
	}
	return &control{t: t, address: fmt.Sprintf("http://%s:%d", entry.Host, entry.Port), token: entry.Token}
}

// post sends a request that changes the cluster, and fails the test where it is refused.
func (c *control) post(route string, body any) {
	c.t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		c.t.Fatal(err)
	}
	request, err := http.NewRequest(http.MethodPost, c.address+route, bytes.NewReader(data))
	if err != nil {
		c.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	var answer map[string]any
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		c.t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		c.t.Fatalf("POST %s: %d %v", route, response.StatusCode, answer["error"])
	}
}

// state reads who is controller now, and which brokers are registered.
func (c *control) state() state {
	c.t.Helper()
	response, err := http.Get(c.address + "/cluster")
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	var now state
	if err := json.NewDecoder(response.Body).Decode(&now); err != nil {
		c.t.Fatal(err)
	}
	return now
}

// seeds are the addresses of the brokers.
func (c *control) seeds() []string {
	return strings.Split(c.state().Bootstrap, ",")
}

// waitForAnotherController waits until a broker other than `before` is the controller.
func (c *control) waitForAnotherController(before int) {
	c.t.Helper()
	c.waitUntil(fmt.Sprintf("a broker other than %d is controller", before), func(now state) bool {
		return now.Controller != nil && *now.Controller != before
	})
}

// waitForAllBrokers waits until every broker is registered: one that an earlier test has killed starts again.
func (c *control) waitForAllBrokers() {
	c.t.Helper()
	c.waitUntil("every broker is registered", func(now state) bool {
		for _, broker := range now.Brokers {
			if !broker.Registered {
				return false
			}
		}
		return true
	})
}

func (c *control) waitUntil(what string, holds func(now state) bool) {
	c.t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if holds(c.state()) {
			return
		}
	}
	c.t.Fatalf("not within a minute: %s", what)
}
