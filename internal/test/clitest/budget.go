package clitest

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Work defines the operations in the table of requests and time, in a cloud's own terms.
type Work struct {
	// Small describes a cluster of one control plane and one group of nodes, with additional options,
	// and Large a private one of three control planes, a bastion and 63 groups of nodes.
	Small func(options ...string)
	Large func()
	// Nameless are the options of a small cluster without DNS.
	Nameless []string
	// Outdated, if not nil, is called once all machines except the bastion are outdated.
	Outdated func()
}

// Row is a line of the table.
type Row struct {
	What             string
	Requests, Budget int // Budget is the maximum number of requests
	Took             time.Duration
	// Report lists the requests.
	Report string
}

// String returns the line.
func (r Row) String() string {
	return fmt.Sprintf("%-54s %4d requests (at most %d)  %5.2f s", r.What, r.Requests, r.Budget, r.Took.Seconds())
}

// Measure performs the operations of the table once, with a latency before each request.
func (u *Proxied) Measure(w Work, latency time.Duration) []Row {
	u.Helper()
	var rows []Row
	add := func(budget int, what string, args ...string) {
		u.Proxy.SetLatency(latency)
		u.Proxy.Reset()
		r := u.Must(args...)
		rows = append(rows, Row{what, u.Proxy.Requests(), budget, r.Took, u.Proxy.Report()})
		u.Proxy.SetLatency(0)
	}
	w.Small()
	add(200, "1 + 1: update --yes", "update", "cluster", u.Cluster, "--yes")
	add(60, "1 + 1: preview without changes", "update", "cluster", u.Cluster)
	u.Must("delete", "cluster", u.Cluster, "--yes")
	w.Small(w.Nameless...)
	u.Must("update", "cluster", u.Cluster, "--yes")
	add(63, "1 + 1, DNS none: preview", "update", "cluster", u.Cluster)
	u.Must("delete", "cluster", u.Cluster, "--yes")
	w.Large()
	add(750, "3 + bastion + 63: update --yes", "update", "cluster", u.Cluster, "--yes")
	u.ResetHome()
	add(150, "3 + bastion + 63: preview without changes, cold", "update", "cluster", u.Cluster)
	add(90, "3 + bastion + 63: preview without changes, cached", "update", "cluster", u.Cluster)
	u.ResetHome()
	add(70, "3 + bastion + 63: get all", "get", "all", "--name", u.Cluster)
	u.ResetHome()
	add(8, "3 + bastion + 63: preview of a roll, none outdated", "rolling-update", "cluster", u.Cluster, "--cloudonly")
	u.Must("edit", "cluster", u.Cluster, "--set", "spec.kubelet.maxPods=55") // of all machines except the bastion
	u.Must("update", "cluster", u.Cluster, "--yes")
	if w.Outdated != nil {
		w.Outdated()
	}
	if r := u.Must("rolling-update", "cluster", u.Cluster, "--cloudonly"); strings.Count(r.Out, "spec.kubelet.maxPods -> 55") != 66 {
		u.Errorf("it is not told of 66 instances why they are rolled:\n%s", r.Out)
	}
	u.ResetHome()
	add(80, "3 + bastion + 63: preview of a roll, all outdated", "rolling-update", "cluster", u.Cluster, "--cloudonly")
	return rows
}

// CheckBudgets measures without latency, and fails if a row needs more requests than its budget.
func (u *Proxied) CheckBudgets(w Work) {
	u.Helper()
	for _, r := range u.Measure(w, 0) {
		if r.Requests > r.Budget {
			u.Errorf("too many requests: %s\n%s", r, r.Report)
		}
		u.Log(r)
	}
}

// PrintTable prints the table at 50 ms latency, in each world that the function creates.
func PrintTable(b *testing.B, world func() (*Proxied, Work)) {
	for b.Loop() {
		u, w := world()
		for _, r := range u.Measure(w, 50*time.Millisecond) {
			fmt.Println(r)
		}
	}
}
