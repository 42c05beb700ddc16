package local

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/client-go/kubernetes"

	"kops.local/kops/internal/test/loadtest"
)

// load is an application of four servers behind a Service, with its clients, and a writer to the API.
type load struct {
	w    *world
	shop *loadtest.Load
	api  *writer
}

// startLoad puts the cluster under load until the end of the test, or until rest is called.
func (w *world) startLoad() *load {
	w.Helper()
	file := filepath.Join(w.TempDir(), "shop.yaml")
	w.ok(os.WriteFile(file, loadtest.Shop, 0o600))
	w.kubectl("apply", "-f", file)
	w.kubectl("rollout", "status", "deployment/shop", "--timeout=5m")
	access := w.access()
	l := &load{w: w, shop: loadtest.Start(w.Context(), func() kubernetes.Interface { return access.client() })}
	w.Cleanup(l.shop.Stop)
	w.wait("an answer of the application at every node", clusterTime, func() error {
		for _, m := range w.workers() {
			if !slices.Contains(l.shop.ReadyNodes(), m.Address) {
				return fmt.Errorf("%s does not take requests", m.Name)
			}
		}
		return nil
	})
	l.shop.StartRequests()
	l.api = w.write()
	w.wait("writes under load", clusterTime, func() error { return l.api.checkAcknowledged(int(calm / writePeriod / 2)) })
	return l
}

// waitForWrites waits until writes have continued for some time.
func (l *load) waitForWrites() {
	l.w.Helper()
	had := l.api.count()
	l.w.wait("writes after", clusterTime, func() error { return l.api.checkAcknowledged(had + int(calm/writePeriod/2)) })
}

// stopAndCheck stops the load, and judges it since the time at which something began.
// No request may have failed, no acknowledged write may be lost, and the longest time
// between writes must not exceed the given gap.
func (l *load) stopAndCheck(what string, since time.Time, gap time.Duration) {
	l.w.Helper()
	sent, failed := l.shop.Finish(l.w)
	l.api.stop()
	out := l.w.evaluate(l.api, since)
	l.w.figures["requests of the application, "+what], l.w.figures["requests of the application that failed, "+what] = float64(sent), float64(failed)
	l.w.figures.seconds("longest time without a write, "+what, out.gap)
	if out.failed > 0 || out.gap > gap {
		l.w.Errorf("%d writes failed for good, and the longest time without one was %s", out.failed, out.gap)
	}
}
