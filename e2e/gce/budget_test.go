package gce

import (
	"testing"

	"kops.local/kops/internal/test/clitest"
)

func (w *world) work() clitest.Work {
	return clitest.Work{Small: w.small, Large: w.large, Nameless: []string{"--dns", "none"}}
}

func TestRequestBudgets(t *testing.T) {
	w := newWorld(t)
	w.CheckBudgets(w.work())
}

// BenchmarkRequests prints the table of requests and time at 50 ms latency.
func BenchmarkRequests(b *testing.B) {
	clitest.PrintTable(b, func() (*clitest.Proxied, clitest.Work) {
		w := newWorld(b)
		return w.Proxied, w.work()
	})
}
