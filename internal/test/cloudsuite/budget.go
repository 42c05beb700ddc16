package cloudsuite

import (
	"fmt"
	"strings"
	"time"
)

// benchLatency is how long each request of the benchmark is delayed.
const benchLatency = 50 * time.Millisecond

// row is a line of the table of requests and time: what is done, and the maximum number of requests.
type row struct {
	what   string
	budget int
}

// The table of requests and time. A small cluster has one control plane and one group of nodes; a
// large one is private and has three control planes, 63 groups of nodes and, where that exists, a bastion.
var (
	smallUpdate    = row{"1 + 1: update --yes", 200}
	smallUnchanged = row{"1 + 1: preview without changes", 60}
	smallNameless  = row{"1 + 1, DNS none: preview", 63}
	smallDeletion  = row{"1 + 1: delete --yes", 250}
	largeUpdate    = row{"3 + 63: update --yes", 750}
	largeCold      = row{"3 + 63: preview without changes, cold", 150}
	largeCached    = row{"3 + 63: preview without changes, cached", 90}
	largeObjects   = row{"3 + 63: get all", 70}
	largeRoll      = row{"3 + 63: preview of a roll, none outdated", 8}
	largeRollOfAll = row{"3 + 63: preview of a roll, all outdated", 80}
	largeDeletion  = row{"3 + 63: delete --yes", 800}
)

// rows lists the table.
func rows() []row {
	return []row{smallUpdate, smallUnchanged, smallNameless, smallDeletion, largeUpdate, largeCold, largeCached, largeObjects, largeRoll, largeRollOfAll, largeDeletion}
}

// measure runs a command, and fails if it needs more requests than its budget.
func (w *World) measure(r row, args ...string) {
	w.Helper()
	if b := w.Cloud.Budgets[r.what]; b > 0 {
		r.budget = b
	}
	w.Proxy.SetLatency(w.latency)
	w.Proxy.Reset()
	took := w.Must(args...).Took
	w.Proxy.SetLatency(0)
	n := w.Proxy.Requests()
	line := fmt.Sprintf("%-54s %4d requests (at most %d)  %5.2f s", r.what, n, r.budget, took.Seconds())
	if w.latency > 0 { // a benchmark
		fmt.Println(line)
		return
	}
	w.Log(line)
	if n > r.budget {
		w.Errorf("too many requests: %s\n%s", line, w.Proxy.Report())
	}
}

// measureApplied creates the small cluster, which is described.
func (w *World) measureApplied() {
	w.measure(smallUpdate, "update", "cluster", Name, "--yes")
	w.measure(smallUnchanged, "update", "cluster", Name)
}

func (w *World) measureSmall() {
	w.Small()
	w.measureApplied()
	w.measure(smallDeletion, "delete", "cluster", Name, "--yes")
}

func (w *World) measureNameless() {
	w.Small(w.Cloud.Nameless...)
	w.Must("update", "cluster", Name, "--yes")
	w.measure(smallNameless, "update", "cluster", Name)
}

func (w *World) measureLarge() {
	w.createLarge()
	w.measure(largeUpdate, "update", "cluster", Name, "--yes")
	w.ResetHome()
	w.measure(largeCold, "update", "cluster", Name)
	w.measure(largeCached, "update", "cluster", Name)
	w.ResetHome()
	w.measure(largeObjects, "get", "all", "--name", Name)
	w.ResetHome()
	w.measure(largeRoll, "rolling-update", "cluster", Name, "--cloudonly")
	w.Must("edit", "cluster", Name, "--set", "spec.kubelet.maxPods=55") // of all machines except the bastion
	w.Must("update", "cluster", Name, "--yes")
	if w.Cloud.Outdate != nil {
		w.Cloud.Outdate(w)
	}
	w.Proxy.Lag(2) // the responses are recorded first: the stand-in's own time is not counted
	if roll := w.previewRoll(); strings.Count(roll, "spec.kubelet.maxPods -> 55") != 66 {
		w.Errorf("the preview does not say of 66 instances why they are rolled:\n%s", roll)
	}
	w.ResetHome()
	w.measure(largeRollOfAll, "rolling-update", "cluster", Name, "--cloudonly")
	w.Proxy.Lag(0)
	w.measure(largeDeletion, "delete", "cluster", Name, "--yes")
}

// liveLarge takes a large cluster through its life.
func (w *World) liveLarge() {
	w.measureLarge()
	w.CheckNothingLeft()
}
