package drive

import (
	"testing"

	"kops.local/kops/internal/ops/kubeclient"
)

// TestADriverObservesBeforeItRuns checks fields that the goroutines of Start read without a
// lock.
func TestADriverObservesBeforeItRuns(t *testing.T) {
	d := newDriver(Config{Client: &kubeclient.Client{}})
	if d.nodes == nil || d.pods == nil || d.drainer == nil || d.listing.ask == nil || d.wake == nil {
		t.Errorf("it lacks the copy of nodes, that of pods, or the drainer: %+v", d)
	}
	if d := newDriver(Config{}); d.nodes != nil || d.pods != nil || d.drainer != nil {
		t.Errorf("without an API server: %+v", d)
	}
}
