package local

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"time"

	"kops.local/kops/internal/platform/local/keeper"
)

// diagnose prints everything known about a cluster whose test failed.
func (w *world) diagnose() {
	if _, err := os.Stat(filepath.Join(w.state(), cluster)); err != nil {
		return // it was deleted
	}
	ctx := context.Background() // the test's own has ended
	const limit = 30 * time.Second
	tell := func(what string, r result) { w.Logf("--- %s: exit %d\n%s%s", what, r.code, r.out, r.err) }
	tell("kops validate cluster", w.run(ctx, limit, "validate", "cluster", cluster))
	tell("kops doctor", w.run(ctx, limit, "doctor", cluster, "--lines", "40"))
	tell("nodes", w.exec(ctx, limit, w.tools.ctl, "get", "nodes", "-o", "wide"))
	tell("pods", w.exec(ctx, limit, w.tools.ctl, "get", "pods", "-A", "-o", "wide"))
	tell("warnings", w.exec(ctx, limit, w.tools.ctl, "get", "events", "-A", "--field-selector=type=Warning"))
	if text, err := os.ReadFile(keeper.LogFile(w.site)); err == nil {
		w.Logf("--- keeper\n%s", end(text))
	}
	all, err := w.machine.List()
	if err != nil {
		w.Log(err)
	}
	for _, m := range all {
		if text, err := w.machine.Log(m.Name); err == nil {
			w.Logf("--- console of %s, running %t\n%s", m.Name, m.Running, end(text))
		}
		inside, cancel := context.WithTimeout(ctx, limit)
		text, err := w.machine.RunInside(inside, m.Name, "journalctl", "--no-pager", "--lines=60", "--grep=^(?!.*FLAG: )", "--unit=kubelet", "--unit=containerd", "--unit=cloud-*", "--unit=kops*")
		cancel()
		w.Logf("--- journal of %s: %v\n%s", m.Name, err, text)
	}
}

// end returns the end of a text, limited to a readable length.
func end(text []byte) []byte {
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-60):], []byte("\n"))
}
