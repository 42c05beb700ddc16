package upkeep_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/node/agent/node"
	"kops.local/kops/internal/node/agent/upkeep"
	"kops.local/kops/internal/node/host"
)

// machine is a machine whose parts a test breaks.
type machine struct {
	units  map[string]host.UnitState
	status int // of the API server's health check; 0 means no answer
	now    time.Time
	watch  upkeep.Watch
}

func (m *machine) States(context.Context, []string) (map[string]host.UnitState, error) {
	return m.units, nil
}

func (m *machine) RoundTrip(r *http.Request) (*http.Response, error) {
	if m.status == 0 || r.URL.Host+r.URL.Path != "127.0.0.1:3990/healthz" {
		return nil, errors.New("connection refused")
	}
	return &http.Response{StatusCode: m.status, Body: http.NoBody}, nil
}

func newMachine(t *testing.T, files map[string]string) *machine {
	m := &machine{now: time.Unix(1e9, 0), status: http.StatusOK}
	up := host.UnitState{Running: true, Started: m.now.Add(-time.Hour)}
	m.units = map[string]host.UnitState{node.KubeletUnit: up, node.ContainerdUnit: up}
	journal := func(_ context.Context, _ string, args ...string) ([]byte, error) {
		return []byte("one of " + args[len(args)-1] + "\nfetch https://me:secret@a.example.com/\n"), nil
	}
	m.watch = upkeep.Watch{Root: t.TempDir(), Systemd: m, Command: journal, HTTP: m, Now: func() time.Time { return m.now }}
	for name, text := range files {
		at := filepath.Join(m.watch.Root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// checkFor checks repeatedly for a time, and returns what is reported at the end.
func (m *machine) checkFor(t *testing.T, d time.Duration) (down []string) {
	t.Helper()
	for end := m.now.Add(d); m.now.Before(end); m.now = m.now.Add(5 * time.Second) {
		found, err := m.watch.Check(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		down = nil
		for _, d := range found {
			down = append(down, fmt.Sprintf("%s: %s: %s", d.Name, d.Error, strings.Join(d.Log, "|")))
		}
	}
	return down
}

func TestDownParts(t *testing.T) {
	var log strings.Builder
	for i := range 5000 {
		fmt.Fprintln(&log, "line", i)
	}
	server := map[string]string{node.APIServerManifest: "x", node.APIServerLog: log.String()}
	lines := "line 4990|line 4991|line 4992|line 4993|line 4994|line 4995|line 4996|line 4997|line 4998|line 4999"
	for _, c := range []struct {
		name  string
		files map[string]string
		do    func(*machine)
		want  []string
	}{
		{"nothing", server, func(*machine) {}, nil},
		{"a unit that is not there", nil, func(m *machine) { delete(m.units, node.ContainerdUnit) }, nil},
		{"no kubelet", nil, func(m *machine) { m.units[node.KubeletUnit] = host.UnitState{} },
			[]string{"kubelet: it is not running: one of _SYSTEMD_UNIT=kubelet.service|fetch https://a.example.com/"}},
		{"a worker has no API server", nil, func(m *machine) { m.status = 0 }, nil},
		{"no answer", server, func(m *machine) { m.status = 0 }, []string{"kube-apiserver: its health check does not respond: " + lines}},
		{"not healthy", server, func(m *machine) { m.status = 500 }, []string{"kube-apiserver: it is not healthy: " + lines}},
	} {
		m := newMachine(t, c.files)
		c.do(m)
		if got := m.checkFor(t, 20*time.Second); len(got) > 0 {
			t.Errorf("%s: %v are down after the time of a restart", c.name, got)
		}
		if got := m.checkFor(t, 20*time.Second); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		m.status, m.units = http.StatusOK, newMachine(t, nil).units
		if got := m.checkFor(t, 5*time.Second); len(got) > 0 {
			t.Errorf("%s: %v are down after they have recovered", c.name, got)
		}
	}
}

// Systemd restarts a unit that fails, and shows it as running.
func TestAUnitThatFailsSoonAfterEachStart(t *testing.T) {
	m := newMachine(t, nil)
	for range 12 {
		m.units[node.KubeletUnit] = host.UnitState{Running: true, Started: m.now.Add(-2 * time.Second)}
		got := m.checkFor(t, 5*time.Second)
		if late := !m.now.Before(time.Unix(1e9+35, 0)); late != (len(got) == 1 && strings.HasPrefix(got[0], "kubelet: it fails soon after each start: ")) {
			t.Errorf("at %s: %v", m.now, got)
		}
	}
}
