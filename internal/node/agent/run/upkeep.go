package run

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"kops.local/kops/internal/node/agent/report"
	"kops.local/kops/internal/node/agent/upkeep"
	"kops.local/kops/internal/node/host"
)

// upkeepPause is how often it is looked whether what the machine runs is up.
const upkeepPause = 5 * time.Second

// upkeep keeps the boot report saying which parts of the machine are down, until the context ends.
func (o Options) upkeep(ctx context.Context, systemd host.Systemd) {
	w := &upkeep.Watch{Root: o.Root, Systemd: systemd, Command: host.Run, HTTP: &http.Transport{}, Now: o.Clock.Now}
	r := &reporter{err: o.Err, path: filepath.Join(o.Root, o.Report), metrics: filepath.Join(o.Root, report.Metrics), now: o.Clock.Now}
	for o.Clock.Sleep(ctx, upkeepPause) == nil {
		down, err := w.Look(ctx)
		if err == nil {
			err = r.down(o.Root, down)
		}
		if err != nil && ctx.Err() == nil && r.isNews(report.Phase{Name: "upkeep", State: report.Failed, Error: err.Error()}) {
			fmt.Fprintf(o.Err, "nodeup: what the machine runs cannot be looked at: %v\n", err) //nolint:errcheck // nothing could be told
		}
	}
}

// down has the boot report of a machine that has started say which parts are down. While another
// nodeup is at work, which writes the report itself, nothing is done.
func (r *reporter) down(root string, now []report.Down) error {
	rep := r.last()
	if rep == nil || !rep.Done || sameDown(rep.Down, now) && (len(now) == 0 || r.now().Sub(r.told) < repeat) {
		return nil
	}
	release, err := lock(root)
	if err != nil {
		return nil //nolint:nilerr // it is tried again soon
	}
	defer release()
	if rep = r.last(); rep == nil || !rep.Done { // it was written meanwhile
		return nil
	}
	rep.Down = now
	r.tell(*rep)
	return nil
}

// sameDown reports whether two lists name the same parts, for the same reasons.
func sameDown(a, b []report.Down) bool { return downNews(a) == downNews(b) }

// downNews is what is news of parts that are down.
func downNews(all []report.Down) (text string) {
	for _, d := range all {
		text += fmt.Sprintf("%s is down since %s: %s\n", d.Name, d.Since.Format(time.RFC3339), d.Error)
	}
	return text
}
