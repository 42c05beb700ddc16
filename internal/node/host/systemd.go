package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"

	"kops.local/kops/internal/engine/fault"
)

// Manager is the machine's own systemd, over D-Bus.
type Manager struct {
	reloading sync.Mutex // held while systemd reads its files
	mu        sync.Mutex // guards the following fields
	conn      *dbus.Conn
	next      *reload // the one that has not begun
}

// reload is one daemon-reload, shared by all its waiters.
type reload struct {
	done chan struct{}
	err  error
}

// Connect connects to systemd's private socket, which exists before the bus does, or to the bus.
func Connect(ctx context.Context) (*Manager, error) {
	conn, err := dial(ctx)
	if err != nil {
		return nil, err
	}
	return &Manager{conn: conn}, nil
}

func dial(ctx context.Context) (*dbus.Conn, error) {
	ctx = context.WithoutCancel(ctx) // canceling it would close the connection
	conn, err := dbus.NewSystemdConnectionContext(ctx)
	if err == nil {
		return conn, nil
	}
	conn, berr := dbus.NewSystemConnectionContext(ctx)
	if berr != nil {
		return nil, fault.Wrap(fault.Permanent, fmt.Errorf("connect to systemd: %w", errors.Join(err, berr)), "run nodeup as root on a machine that runs systemd")
	}
	return conn, nil
}

// bus returns the connection. Systemd closes it when it restarts itself, as after an upgrade of
// its package; then a new one is opened.
func (m *Manager) bus(ctx context.Context) (*dbus.Conn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conn.Connected() {
		return m.conn, nil
	}
	conn, err := dial(ctx)
	if err != nil {
		return nil, fault.Wrap(fault.NotYet, err, fault.Remedy(err))
	}
	m.conn = conn
	return conn, nil
}

// classifyQueryError classifies the error of a query: a query that was cut off because systemd
// restarts itself is retryable.
func classifyQueryError(err error) error {
	for _, ended := range []error{io.EOF, syscall.ECONNRESET, syscall.EPIPE, net.ErrClosed, godbus.ErrClosed} {
		if errors.Is(err, ended) {
			return fault.Wrap(fault.NotYet, err, "")
		}
	}
	return err
}

// Close closes the connection.
func (m *Manager) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.conn.Close()
}

// States queries each unit's properties.
func (m *Manager) States(ctx context.Context, units []string) (map[string]UnitState, error) {
	conn, err := m.bus(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]UnitState{}
	jobs, err := conn.ListJobsContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("list systemd's jobs: %w", err)
	}
	for _, u := range units {
		p, err := conn.GetUnitPropertiesContext(ctx, u)
		if err != nil {
			return nil, fmt.Errorf("query systemd for %s: %w", u, err)
		}
		if p["LoadState"] == "not-found" {
			continue
		}
		s := UnitState{Outdated: p["NeedDaemonReload"] == true, Started: micros(p["InactiveExitTimestamp"])}
		file, _ := p["UnitFileState"].(string)
		s.Static = file == "static" || file == "generated"
		s.Enabled = strings.HasPrefix(file, "enabled") || s.Static
		switch p["ActiveState"] {
		case "active", "reloading", "activating": // systemd takes care of a unit that restarts after a failure
			s.Running = true
		case "inactive":
			s.Ended, err = endedWell(ctx, conn, u, s.Enabled)
			if err != nil {
				return nil, err
			}
			s.Queued = slices.ContainsFunc(jobs, func(j dbus.JobStatus) bool { return j.Unit == p["Id"] && isStart(j.JobType) })
			s.Running = s.Ended || s.Queued
		}
		out[u] = s
	}
	return out, nil
}

// isStart reports whether a job of a type starts a unit that is not running.
func isStart(job string) bool { return job == "start" || job == "restart" }

// endedWell reports whether a unit is a oneshot service that has exited
// successfully. Systemd soon forgets that; but a unit is enabled only after its
// first start.
func endedWell(ctx context.Context, conn *dbus.Conn, unit string, enabled bool) (bool, error) {
	if !strings.HasSuffix(unit, ".service") {
		return false, nil
	}
	p, err := conn.GetUnitTypePropertiesContext(ctx, unit, "Service")
	if err != nil {
		return false, fmt.Errorf("query systemd for %s: %w", unit, err)
	}
	return p["Type"] == "oneshot" && p["Result"] == "success" && (enabled || !micros(p["ExecMainExitTimestamp"]).IsZero()), nil
}

// micros converts a systemd timestamp: microseconds since 1970, 0 for never.
func micros(v any) time.Time {
	n, ok := v.(uint64)
	if !ok || n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(n)) //nolint:gosec // fits for any realistic time
}

// Reload runs a daemon-reload. Callers that arrive while one runs share the next
// one: it is slow, and blocks everything else that systemd does.
func (m *Manager) Reload(ctx context.Context) error {
	m.mu.Lock()
	r := m.next
	if r != nil {
		m.mu.Unlock()
		<-r.done
		return r.err
	}
	r = &reload{done: make(chan struct{})}
	m.next = r
	m.mu.Unlock()

	m.reloading.Lock()
	defer m.reloading.Unlock()
	defer close(r.done)
	m.mu.Lock()
	m.next = nil // it begins: files written from now on need another
	m.mu.Unlock()
	conn, err := m.bus(ctx)
	if err == nil {
		err = conn.ReloadContext(ctx)
	}
	if err != nil {
		r.err = classifyQueryError(fmt.Errorf("reload systemd: %w", err))
	}
	return r.err
}

// Enable enables or disables a unit. Disabling an unknown unit is not an error.
func (m *Manager) Enable(ctx context.Context, unit string, on bool) error {
	conn, err := m.bus(ctx)
	if err != nil {
		return err
	}
	if on {
		_, _, err = conn.EnableUnitFilesContext(ctx, []string{unit}, false, true)
	} else {
		_, err = conn.DisableUnitFilesContext(ctx, []string{unit}, false)
	}
	if err != nil && (on || !isUnknownUnit(err)) {
		return classifyQueryError(fmt.Errorf("enable %s: %w", unit, err))
	}
	return nil
}

// Start starts a unit and waits for the job to finish.
func (m *Manager) Start(ctx context.Context, unit string, anew bool) error {
	conn, err := m.bus(ctx)
	if err != nil {
		return err
	}
	done, start := make(chan string, 1), conn.StartUnitContext
	if anew {
		start = conn.RestartUnitContext
	}
	if _, err := start(ctx, unit, "replace", done); err != nil {
		return classifyQueryError(fmt.Errorf("start %s: %w", unit, err))
	}
	return wait(ctx, conn, unit, done)
}

// Stop stops a unit and waits for the job to finish.
func (m *Manager) Stop(ctx context.Context, unit string) error {
	conn, err := m.bus(ctx)
	if err != nil {
		return err
	}
	done := make(chan string, 1)
	if _, err := conn.StopUnitContext(ctx, unit, "replace", done); err != nil {
		if isUnknownUnit(err) {
			return nil
		}
		return classifyQueryError(fmt.Errorf("stop %s: %w", unit, err))
	}
	return wait(ctx, conn, unit, done)
}

// wait waits for a job to finish; the result never arrives if the connection is lost.
func wait(ctx context.Context, conn *dbus.Conn, unit string, done <-chan string) error {
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for {
		select {
		case result := <-done:
			if result == "done" || result == "skipped" {
				return nil
			}
			return fault.Wrap(fault.NotYet, fmt.Errorf("%s did not start: %s", unit, result), "see its log: journalctl --unit="+word(unit))
		case <-look.C:
			if !conn.Connected() {
				return fault.New(fault.NotYet, "systemd closed the connection before it reported the result of %s", unit)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// word quotes a unit's name as one shell word: a mount's name may contain backslashes.
func word(unit string) string {
	if strings.Contains(unit, `\`) {
		return "'" + unit + "'"
	}
	return unit
}

// isUnknownUnit reports whether an error means that systemd does not know a unit.
func isUnknownUnit(err error) bool {
	var e godbus.Error
	return errors.As(err, &e) && (e.Name == "org.freedesktop.systemd1.NoSuchUnit" || e.Name == "org.freedesktop.DBus.Error.FileNotFound")
}

// Begin starts a unit, or restarts it if it runs, and does not wait for it.
func (m *Manager) Begin(ctx context.Context, unit string) error {
	conn, err := m.bus(ctx)
	if err != nil {
		return err
	}
	if _, err := conn.RestartUnitContext(ctx, unit, "replace", nil); err != nil {
		return fmt.Errorf("start %s: %w", unit, err)
	}
	return nil
}
