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

// upkeepPause is the interval between checks whether the machine's services are up.
const upkeepPause = 5 * time.Second

// recordDownParts records in the boot report which parts of the machine are down, until the context
// ends.
func (o Options) recordDownParts(ctx context.Context, systemd host.Systemd) {
	w := &upkeep.Watch{Root: o.Root, Systemd: systemd, Command: host.Run, HTTP: &http.Transport{}, Now: o.Clock.Now}
	r := &reporter{err: o.Err, path: filepath.Join(o.Root, o.Report), metrics: filepath.Join(o.Root, report.Metrics), now: o.Clock.Now}
	for o.Clock.Sleep(ctx, upkeepPause) == nil {
		down, err := w.Check(ctx)
		if err == nil {
			err = r.down(o.Root, down)
		}
		if err != nil && ctx.Err() == nil && r.isNew(report.Phase{Name: "upkeep", State: report.Failed, Error: err.Error()}) {
			fmt.Fprintf(o.Err, "nodeup: cannot inspect what the machine runs: %v\n", err) //nolint:errcheck // a failed write cannot be reported
		}
	}
}

// down records in the boot report of a machine that has started which parts are down. It does
// nothing while another nodeup runs, which writes the report itself.
func (r *reporter) down(root string, now []report.Down) error {
	rep := r.lastReport()
	if rep == nil || !rep.Done || sameDown(rep.Down, now) && (len(now) == 0 || r.now().Sub(r.compressedAt) < repeat) {
		return nil
	}
	release, err := lock(root)
	if err != nil {
		return nil //nolint:nilerr // it is retried soon
	}
	defer release()
	if rep = r.lastReport(); rep == nil || !rep.Done { // it was written meanwhile
		return nil
	}
	rep.Down = now
	r.update(*rep)
	return nil
}

// sameDown reports whether two lists name the same parts, for the same reasons.
func sameDown(a, b []report.Down) bool { return downLines(a) == downLines(b) }

// downLines returns a line for each part that is down.
func downLines(all []report.Down) (text string) {
	for _, d := range all {
		text += fmt.Sprintf("%s has been down since %s: %s\n", d.Name, d.Since.Format(time.RFC3339), d.Error)
	}
	return text
}
