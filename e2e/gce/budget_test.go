package gce

import (
	"fmt"
	"strings"
	"testing"
	"time"
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
		w.proxy.Reset()
		r := w.Must(args...)
		rows = append(rows, row{what, w.proxy.Requests(), r.Took})
	}
	w.small()
	w.proxy.SetLatency(latency)
	add("1 + 1: update --yes", "update", "cluster", name, "--yes")
	add("1 + 1: preview without changes", "update", "cluster", name)
	w.proxy.SetLatency(0)
	w.Must("delete", "cluster", name, "--yes")
	w.small("--dns", "none")
	w.Must("update", "cluster", name, "--yes")
	w.proxy.SetLatency(latency)
	add("1 + 1, DNS none: preview", "update", "cluster", name)
	w.proxy.SetLatency(0)
	w.Must("delete", "cluster", name, "--yes")
	w.large()
	w.proxy.SetLatency(latency)
	add("3 + bastion + 63: update --yes", "update", "cluster", name, "--yes")
	w.Forget()
	add("3 + bastion + 63: preview without changes, cold", "update", "cluster", name)
	add("3 + bastion + 63: preview without changes, cached", "update", "cluster", name)
	w.Forget()
	add("3 + bastion + 63: get all", "get", "all", "--name", name)
	w.Forget()
	add("3 + bastion + 63: preview of a roll, none outdated", "rolling-update", "cluster", name, "--cloudonly")
	w.proxy.SetLatency(0)
	w.Must("edit", "cluster", name, "--set", "spec.kubelet.maxPods=55") // of all but the bastion
	w.Must("update", "cluster", name, "--yes")
	if r := w.Must("rolling-update", "cluster", name, "--cloudonly"); strings.Count(r.Out, "spec.kubelet.maxPods -> 55") != 66 {
		w.Errorf("it is not told of 66 instances why they are rolled:\n%s", r.Out)
	}
	w.proxy.SetLatency(latency)
	w.Forget()
	add("3 + bastion + 63: preview of a roll, all outdated", "rolling-update", "cluster", name, "--cloudonly")
	return rows
}

// budgets are the most requests each row may take: those of AWS.
var budgets = []int{200, 60, 61, 750, 150, 90, 70, 8, 80}

func TestRequestBudgets(t *testing.T) {
	w := newWorld(t)
	for i, r := range measure(w, 0) {
		if r.requests > budgets[i] {
			t.Errorf("%s: %d requests, at most %d are allowed\n%s", r.what, r.requests, budgets[i], w.proxy.Report())
		}
		t.Logf("%-54s %4d requests of %d", r.what, r.requests, budgets[i])
	}
}

// BenchmarkRequests prints the table of requests and time at 50 ms latency.
func BenchmarkRequests(b *testing.B) {
	for b.Loop() {
		for i, r := range measure(newWorld(b), 50*time.Millisecond) {
			fmt.Printf("%-54s %4d requests (at most %d)  %5.2f s\n", r.what, r.requests, budgets[i], r.took.Seconds())
		}
	}
}
