// Package upkeep watches what a machine must run after its start: the kubelet, the container
// runtime and, on a control plane, the API server. It reports which of them is down, with the
// end of its log, so that a user learns the cause without a way to the machine.
//
// It must not change the machine, nor know who reads what it finds.
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
	// settled is how long a unit must have run to count as up: one that fails soon after
	// each start is started again within seconds.
	settled = 10 * time.Second
	// patience is how long a part may be down before it is reported: a restart, as in a
	// rolling update in place, is shorter.
	patience = 30 * time.Second
	// answerTime bounds the question whether the API server is healthy.
	answerTime = 5 * time.Second
	// logLines and logBytes bound the end of a log.
	logLines, logBytes = 10, 16 << 10
)

// Watch looks at the parts of one machine, again and again.
type Watch struct {
	// Root is where the machine's file system begins.
	Root    string
	Systemd interface {
		States(ctx context.Context, units []string) (map[string]host.UnitState, error)
	}
	// Command runs a program of the machine.
	Command func(ctx context.Context, name string, args ...string) ([]byte, error)
	// HTTP asks the machine's own API server whether it is healthy.
	HTTP http.RoundTripper
	Now  func() time.Time

	down map[string]report.Down
}

// Look returns the parts that have been down for longer than a restart takes. An error says
// that systemd could not be asked.
func (w *Watch) Look(ctx context.Context) ([]report.Down, error) {
	units := []string{node.ContainerdUnit, node.KubeletUnit}
	states, err := w.Systemd.States(ctx, units)
	if err != nil {
		return nil, err
	}
	var out []report.Down
	for _, unit := range units {
		if s, there := states[unit]; there {
			out = append(out, w.judge(strings.TrimSuffix(unit, ".service"), w.unitTrouble(s), func() []string { return w.journal(ctx, unit) })...)
		}
	}
	if _, err := os.Stat(filepath.Join(w.Root, node.APIServerManifest)); err == nil {
		out = append(out, w.judge(node.APIServer, w.serverTrouble(ctx), w.serverLog)...)
	}
	return out, nil
}

// judge returns a part that has been in trouble for too long, or nothing. Its log is read once.
func (w *Watch) judge(name string, trouble error, log func() []string) []report.Down {
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

// unitTrouble says what is wrong with a unit.
func (w *Watch) unitTrouble(s host.UnitState) error {
	switch {
	case !s.Running:
		return errors.New("it does not run")
	case w.Now().Sub(s.Started) < settled:
		return errors.New("it fails soon after each start")
	}
	return nil
}

// serverTrouble asks the machine's API server for its health, by the health check of its pod, which has the right to ask.
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
		return errors.New("its health check does not answer")
	}
	defer answer.Body.Close()                                      //nolint:errcheck // it was only read
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<20)) // for the connection to serve again
	if answer.StatusCode != http.StatusOK {
		return errors.New("it is not healthy")
	}
	return nil
}

// journal is the end of what the processes of a unit wrote.
func (w *Watch) journal(ctx context.Context, unit string) []string {
	text, err := w.Command(ctx, "journalctl", "--no-pager", "--quiet", "--output=cat", fmt.Sprintf("--lines=%d", logLines), "_SYSTEMD_UNIT="+unit)
	if err != nil {
		return []string{"its journal cannot be read: " + err.Error()}
	}
	return lastLines(text)
}

// serverLog is the end of the log of the machine's API server.
func (w *Watch) serverLog() []string {
	f, err := os.Open(filepath.Join(w.Root, node.APIServerLog))
	if err != nil {
		return nil // it has written nothing
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

// lastLines are the last lines of a text.
func lastLines(text []byte) []string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[max(0, len(lines)-logLines):]
}
