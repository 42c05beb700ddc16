package aws

import (
	"fmt"
	"testing"
	"time"

	"kops.local/kops/internal/platform/aws/awstest"
)

// row is one line of the table of requests and time.
type row struct {
	what     string
	requests int
	took     time.Duration
}

// measure does the work of the table once, with a latency before each request.
func measure(w *world, latency time.Duration) []row {
	var rows []row
	add := func(what string, args ...string) {
		r, n := w.counted(args...)
		rows = append(rows, row{what, n, r.took})
	}
	w.small()
	w.proxy.SetLatency(latency)
	add("1 + 1: update --yes", "update", "cluster", name, "--yes")
	add("1 + 1: preview without changes", "update", "cluster", name)
	w.proxy.SetLatency(0)
	w.must("delete", "cluster", name, "--yes")
	w.small("--dns", "none", "--discovery-store", "s3://"+bucket+"/discovery")
	w.must("update", "cluster", name, "--yes")
	w.proxy.SetLatency(latency)
	add("1 + 1, DNS none and an issuer: preview", "update", "cluster", name)
	w.proxy.SetLatency(0)
	w.must("delete", "cluster", name, "--yes")
	w.large()
	w.proxy.SetLatency(latency)
	add("3 + bastion + 63: update --yes", "update", "cluster", name, "--yes")
	w.forget()
	add("3 + bastion + 63: preview without changes, cold", "update", "cluster", name)
	add("3 + bastion + 63: preview without changes, cached", "update", "cluster", name)
	w.forget()
	add("3 + bastion + 63: get all", "get", "all", "--name", name)
	return rows
}

// budgets are the most requests each row may take.
var budgets = []int{200, 60, 61, 750, 150, 90, 70}

func TestRequestBudgets(t *testing.T) {
	for i, r := range measure(newWorld(t, awstest.Moto(t)), 0) {
		if r.requests > budgets[i] {
			t.Errorf("%s: %d requests, at most %d are allowed", r.what, r.requests, budgets[i])
		}
		t.Logf("%-52s %4d requests of %d", r.what, r.requests, budgets[i])
	}
}

// BenchmarkRequests prints the table of requests and time at 50 ms latency.
func BenchmarkRequests(b *testing.B) {
	server := awstest.Moto(b)
	for b.Loop() {
		for i, r := range measure(newWorld(b, server), 50*time.Millisecond) {
			fmt.Printf("%-52s %4d requests (at most %d)  %5.2f s\n", r.what, r.requests, budgets[i], r.took.Seconds())
		}
	}
}
