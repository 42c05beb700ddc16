// Package upkeep watches what a machine must run after its start: the kubelet, the container
// runtime and, on a control plane, the API server. It reports which of them is down, with the
// end of its log, so that a user learns the cause without access to the machine.
//
// It must not change the machine, nor know who reads its findings.
package upkeep

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"kops.local/kops/internal/contract/ports"
	"kops.local/kops/internal/node/agent/node"
	"kops.local/kops/internal/node/agent/report"
	"kops.local/kops/internal/node/host"
)

const (
	// settled is how long a unit must have run to count as up: systemd restarts a unit
	// that fails soon after each start within seconds.
	settled = 10 * time.Second
	// patience is how long a part may be down before it is reported: a restart, as in
	// an update in place, is shorter.
	patience = 30 * time.Second
	// answerTime limits the API server's health check.
	answerTime = 5 * time.Second
	// logLines and logBytes limit the end of a log that is reported.
	logLines, logBytes = 10, 16 << 10
)

// Watch checks the parts of one machine repeatedly.
type Watch struct {
	// Root is the root of the machine's file system.
	Root    string
	Systemd interface {
		States(ctx context.Context, units []string) (map[string]host.UnitState, error)
	}
	// Command runs a program on the machine.
	Command func(ctx context.Context, name string, args ...string) ([]byte, error)
	// HTTP carries the health checks of the machine's own API server.
	HTTP http.RoundTripper
	Now  func() time.Time

	down map[string]report.Down
}

// Check returns the parts that have been down for longer than a restart takes. An error
// means that systemd could not be queried.
func (w *Watch) Check(ctx context.Context) ([]report.Down, error) {
	units := []string{node.ContainerdUnit, node.KubeletUnit}
	states, err := w.Systemd.States(ctx, units)
	if err != nil {
		return nil, err
	}
	var out []report.Down
	for _, unit := range units {
		if s, there := states[unit]; there {
			out = append(out, w.longTrouble(strings.TrimSuffix(unit, ".service"), w.unitTrouble(s), func() []string { return w.journal(ctx, unit) })...)
		}
	}
	if _, err := os.Stat(filepath.Join(w.Root, node.APIServerManifest)); err == nil {
		out = append(out, w.longTrouble(node.APIServer, w.serverTrouble(ctx), w.serverLog)...)
	}
	return out, nil
}

// longTrouble returns a part that has been in trouble for too long, or nothing. It reads the part's
// log only once.
func (w *Watch) longTrouble(name string, trouble error, log func() []string) []report.Down {
	if w.down == nil {
		w.down = map[string]report.Down{}
	}
	if trouble == nil {
		delete(w.down, name)
		return nil
	}
	d, known := w.down[name]
	if !known {
		d = report.Down{Name: name, Since: w.Now().UTC().Truncate(time.Second)}
	}
	late := w.Now().Sub(d.Since) >= patience
	if late && d.Error == "" {
		d.Error = report.Public(trouble.Error())
		for _, l := range log() {
			d.Log = append(d.Log, report.Public(l))
		}
	}
	w.down[name] = d
	if !late {
		return nil
	}
	return []report.Down{d}
}

// unitTrouble returns what is wrong with a unit, or nil.
func (w *Watch) unitTrouble(s host.UnitState) error {
	switch {
	case !s.Running:
		return errors.New("it is not running")
	case w.Now().Sub(s.Started) < settled:
		return errors.New("it fails soon after each start")
	}
	return nil
}

// serverTrouble checks the health of the machine's API server through its pod's health-check
// endpoint, which has the permission to query it.
func (w *Watch) serverTrouble(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	at := fmt.Sprintf("http://127.0.0.1:%d/healthz", ports.APIHealth)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return err
	}
	answer, err := w.HTTP.RoundTrip(r)
	if err != nil {
		return errors.New("its health check does not respond")
	}
	defer answer.Body.Close()                                      //nolint:errcheck // only read
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<20)) // so that the connection can be reused
	if answer.StatusCode != http.StatusOK {
		return errors.New("it is not healthy")
	}
	return nil
}

// journal returns the last lines that a unit's processes logged.
func (w *Watch) journal(ctx context.Context, unit string) []string {
	text, err := w.Command(ctx, "journalctl", "--no-pager", "--quiet", "--output=cat", fmt.Sprintf("--lines=%d", logLines), "_SYSTEMD_UNIT="+unit)
	if err != nil {
		return []string{"its journal cannot be read: " + err.Error()}
	}
	return lastLines(text)
}

// serverLog returns the last lines of the log of the machine's API server.
func (w *Watch) serverLog() []string {
	f, err := os.Open(filepath.Join(w.Root, node.APIServerLog))
	if err != nil {
		return nil // it has logged nothing
	}
	defer f.Close() // only read
	if info, err := f.Stat(); err == nil {
		if _, err := f.Seek(max(0, info.Size()-logBytes), io.SeekStart); err != nil {
			return nil
		}
	}
	text, err := io.ReadAll(io.LimitReader(f, logBytes))
	if err != nil {
		return []string{"its log cannot be read: " + err.Error()}
	}
	return lastLines(text)
}

// lastLines returns the last lines of a text.
func lastLines(text []byte) []string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[max(0, len(lines)-logLines):]
}
