package host

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
)

// Unit is a unit of systemd.
type Unit struct {
	Name string `res:"forbid"`
	// DropIn says that the content adds to a unit of the distribution's.
	DropIn bool `res:"forbid"`
	// Off says that a unit, of any origin, must neither run nor start; a missing unit is off, too.
	Off bool `res:"forbid"`
	// Masked is of a unit that is off: nothing can start it, also not another unit that asks for it.
	Masked bool `res:"forbid"`
	// Content is the unit file; none: the distribution's. What a service reads at
	// its start belongs into the content by its digest, see WithDigest.
	Content resource.Content `res:"default"`
	// Private is of a unit whose file only root may read.
	Private bool `res:"writeonly"`
	// On says that the unit runs, now and after every start of the machine.
	On bool
	// Current is wanted of a unit that is on: it was started with the content that it has.
	Current bool
	// Optional says that nothing waits in vain for the unit: a failure to start is a warning.
	Optional bool `res:"writeonly"`
}

// Units is the kind of Unit. A unit whose content changes is restarted; so is one whose file is
// younger than its start, as an interrupted run leaves it.
var Units = resource.Kind[Unit, *Machine]{
	Name: "host_unit", API: "units", Direct: true,
	Key: unitKey, List: listUnits, Create: convergeUnit,
	Update: []resource.Setter[Unit, *Machine]{{Fields: []string{"Content", "On", "Current"},
		Set: func(ctx context.Context, m *Machine, have, want *Unit) error {
			anew := !have.Current || differs(have.Content, want.Content)
			if anew && have.On && want.On && m.BeforeRestart != nil {
				m.BeforeRestart(ctx, want.Name)
			}
			return startedUnit(ctx, m, want, anew)
		}}},
	Delete: deleteUnit,
}

// Systemd manages units. All methods may be called again after a failure.
type Systemd interface {
	// States returns the states of the units that are loaded or have a file.
	States(ctx context.Context, units []string) (map[string]UnitState, error)
	// Reload reads all unit files again.
	Reload(ctx context.Context) error
	// Enable makes a unit start with the machine, or not.
	Enable(ctx context.Context, unit string, on bool) error
	// Start starts a unit and waits until it has started. A running unit is left alone, or with
	// anew stopped before.
	Start(ctx context.Context, unit string, anew bool) error
	// Stop stops a unit, and waits; a unit that does not run, or is not known, is not an error.
	Stop(ctx context.Context, unit string) error
}

// UnitState is what systemd knows of a unit.
type UnitState struct {
	// Enabled is true too of a unit that only others start, which Static says.
	Enabled, Static bool
	// Running is true too of a task that has run and ended well, which Ended says, and
	// of a unit whose start waits for another's, which Queued says.
	Running, Ended, Queued bool
	// Outdated says that the file has changed since systemd read it.
	Outdated bool
	// Started is when the unit was last started; zero: it was not.
	Started time.Time
}

// WithDigest adds to a unit's content a line that systemd does not heed and that
// changes with the digest of what the unit reads at its start, given as texts.
func WithDigest(content string, texts ...string) string {
	sum, _ := resource.Text(resource.Lit(strings.Join(texts, "\x00"))).Digest()
	return strings.TrimSuffix(content, "\n") + "\n\n[X-Kops]\nReads=" + sum + "\n"
}

// dropIn ends the key of a unit that adds to another's.
const dropIn = ".d/10-kops.conf"

// switchedOff ends the key of a unit that should only be off, and maskedOff the key of a unit that
// is also masked.
const (
	switchedOff = " (off)"
	maskedOff   = " (masked)"
)

func unitKey(u *Unit) string {
	switch {
	case u.DropIn:
		return u.Name + dropIn
	case u.Masked:
		return u.Name + maskedOff
	case u.Off:
		return u.Name + switchedOff
	}
	return u.Name
}

// unitFile is where the content of the unit with a key is.
func unitFile(key string) string { return "/etc/systemd/system/" + key }

func listUnits(ctx context.Context, m *Machine, s resource.Scope) ([]*Unit, error) {
	if len(s.Names) == 0 {
		return nil, nil
	}
	var names []string
	for _, key := range s.Names {
		names = append(names, strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(key, dropIn), switchedOff), maskedOff))
	}
	states, err := m.Systemd.States(ctx, names)
	if err != nil {
		return nil, err
	}
	var out []*Unit
	for i, key := range s.Names {
		state, known := states[names[i]]
		u := &Unit{Name: names[i], DropIn: strings.HasSuffix(key, dropIn), Masked: strings.HasSuffix(key, maskedOff), On: state.Enabled && state.Running}
		if u.Off = u.Masked || strings.HasSuffix(key, switchedOff); u.Off {
			u.On, u.Current = state.Running && !state.Ended || state.Enabled && !state.Static || u.Masked && !m.masked(u.Name), true
			out = append(out, u)
			continue
		}
		info, err := os.Stat(m.path(unitFile(key)))
		switch {
		case missing(err):
			if !known || u.DropIn {
				continue
			}
			u.Current = !state.Outdated
		case err != nil:
			return nil, classed(err)
		default:
			sum, err := fileSHA256(m.path(unitFile(key)))
			if err != nil {
				return nil, classed(err)
			}
			u.Content = resource.Digested(sum)
			u.Current = !state.Outdated && (state.Ended || state.Queued || !state.Started.Before(info.ModTime()))
		}
		if !state.Enabled && !state.Running {
			u.Current = true // nothing runs that could be old
		}
		out = append(out, u)
	}
	return out, nil
}

// differs reports whether a unit file is to have other content than it has.
func differs(have, want resource.Content) bool {
	if text, _ := want.Value().Known(); text == "" {
		return false
	}
	return !want.Same(have)
}

func convergeUnit(ctx context.Context, m *Machine, u *Unit) error {
	return startedUnit(ctx, m, u, true)
}

// startedUnit writes a unit and starts it, or restarts it if anew says that it runs with an old
// configuration.
func startedUnit(ctx context.Context, m *Machine, u *Unit, anew bool) error {
	if text, _ := u.Content.Value().Known(); text != "" {
		mode := fs.FileMode(0o644)
		if u.Private {
			mode = 0o600
		}
		if err := m.write(unitFile(unitKey(u)), mode, owner{}, strings.NewReader(text)); err != nil {
			return err
		}
		if err := m.Systemd.Reload(ctx); err != nil {
			return err
		}
	}
	if !u.On {
		if err := m.Systemd.Enable(ctx, u.Name, false); err != nil {
			return err
		}
		if err := m.Systemd.Stop(ctx, u.Name); err != nil || !u.Masked {
			return err
		}
		return m.mask(ctx, u.Name)
	}
	if err := m.Systemd.Start(ctx, u.Name, anew); err != nil {
		if !u.Optional || ctx.Err() != nil {
			return err
		}
		m.warn("the unit " + u.Name + " did not start: " + err.Error())
	}
	return m.Systemd.Enable(ctx, u.Name, true) // last: it says that the unit was started
}

// masked reports whether a link hides the unit from systemd (systemd.unit(5)).
func (m *Machine) masked(unit string) bool {
	target, err := os.Readlink(m.path(unitFile(unit)))
	return err == nil && target == os.DevNull
}

// mask hides a unit. One that somebody has written for this machine is left as it is.
func (m *Machine) mask(ctx context.Context, unit string) error {
	info, err := os.Lstat(m.path(unitFile(unit)))
	if err == nil && info.Mode().IsRegular() {
		return fault.Wrap(fault.Permanent, fmt.Errorf("the unit %s cannot be masked: %s is a file", unit, unitFile(unit)), "remove that file")
	}
	if err := makeSymlink(ctx, m, &Symlink{Path: unitFile(unit), Target: os.DevNull}); err != nil {
		return err
	}
	return m.Systemd.Reload(ctx)
}

func deleteUnit(ctx context.Context, m *Machine, u *Unit) error {
	if u.Off { // its owner may switch it on
		return nil
	}
	if u.DropIn { // the unit itself is the distribution's, and stays as it is
		return m.deleteDropIn(ctx, u)
	}
	if err := m.Systemd.Stop(ctx, u.Name); err != nil {
		return err
	}
	if err := m.Systemd.Enable(ctx, u.Name, false); err != nil {
		return err
	}
	if err := m.remove(unitFile(unitKey(u))); err != nil {
		return err
	}
	return m.Systemd.Reload(ctx)
}

func (m *Machine) deleteDropIn(ctx context.Context, u *Unit) error {
	if err := m.remove(unitFile(unitKey(u))); err != nil {
		return err
	}
	if err := m.Systemd.Reload(ctx); err != nil || !u.On {
		return err
	}
	return m.Systemd.Start(ctx, u.Name, true)
}

// Offline is systemd for a folder: a unit is enabled by a link, as systemctl
// --root makes it, and counts as running when it is enabled.
type Offline struct{ Root string }

func (o Offline) link(unit string) string {
	target := "multi-user.target"
	text, _ := os.ReadFile(o.Root + unitFile(unit)) // the distribution's units are not read
	for line := range strings.Lines(string(text)) {
		if t, ok := strings.CutPrefix(strings.TrimSpace(line), "WantedBy="); ok {
			target = t
		}
	}
	return o.Root + "/etc/systemd/system/" + target + ".wants/" + unit
}

// States reports the links and the files.
func (o Offline) States(_ context.Context, units []string) (map[string]UnitState, error) {
	out := map[string]UnitState{}
	for _, u := range units {
		_, err := os.Lstat(o.link(u))
		_, ferr := os.Stat(o.Root + unitFile(u))
		if err == nil || ferr == nil {
			out[u] = UnitState{Enabled: err == nil, Running: err == nil, Started: time.Unix(1<<40, 0)}
		}
	}
	return out, nil
}

// Reload does nothing.
func (Offline) Reload(context.Context) error { return nil }

// Enable makes the link or takes it away.
func (o Offline) Enable(ctx context.Context, unit string, on bool) error {
	if !on {
		return RemoveAt(o.link(unit))
	}
	return makeSymlink(ctx, &Machine{}, &Symlink{Path: o.link(unit), Target: unitFile(unit)})
}

// Start does nothing.
func (Offline) Start(context.Context, string, bool) error { return nil }

// Stop does nothing.
func (Offline) Stop(context.Context, string) error { return nil }
