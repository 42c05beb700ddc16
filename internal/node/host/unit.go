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

// Unit is a systemd unit.
type Unit struct {
	Name string `res:"forbid"`
	// DropIn is set if the content extends one of the distribution's units.
	DropIn bool `res:"forbid"`
	// Off is set if a unit, of any origin, must neither run nor start; a missing unit also counts as off.
	Off bool `res:"forbid"`
	// Masked is set for an Off unit that nothing may start, not even another unit that requires it.
	Masked bool `res:"forbid"`
	// Content is the unit file; if empty, the distribution's is used. It must include
	// a digest of everything that a service reads at startup, see WithDigest.
	Content resource.Content `res:"default"`
	// Private is set if only root may read the unit file.
	Private bool `res:"writeonly"`
	// On is set if the unit runs, now and after every boot.
	On bool
	// Current is wanted for a unit that is On: it was started with its present content.
	Current bool
	// Optional is set if nothing depends on the unit: a failure to start it is a warning.
	Optional bool `res:"writeonly"`
}

// Units is the kind of Unit. A unit whose content changes is restarted; so is one whose file is
// newer than its start, as after an interrupted run.
var Units = resource.Kind[Unit, *Machine]{
	Name: "host_unit", API: "units", Direct: true,
	Key: unitKey, List: listUnits, Create: convergeUnit,
	Update: []resource.Setter[Unit, *Machine]{{Fields: []string{"Content", "On", "Current"},
		Set: func(ctx context.Context, m *Machine, have, want *Unit) error {
			anew := !have.Current || hasNewContent(have.Content, want.Content)
			if anew && have.On && want.On && m.BeforeRestart != nil {
				m.BeforeRestart(ctx, want.Name)
			}
			return writeAndStart(ctx, m, want, anew)
		}}},
	Delete: deleteUnit,
}

// Systemd manages units. All methods may be called again after a failure.
type Systemd interface {
	// States returns the states of the units that are loaded or have a file.
	States(ctx context.Context, units []string) (map[string]UnitState, error)
	// Reload rereads all unit files.
	Reload(ctx context.Context) error
	// Enable sets whether a unit starts on boot.
	Enable(ctx context.Context, unit string, on bool) error
	// Start starts a unit and waits until it has started. A running unit is left alone, or
	// restarted if anew is set.
	Start(ctx context.Context, unit string, anew bool) error
	// Stop stops a unit, and waits; a unit that does not run, or is unknown, is not an error.
	Stop(ctx context.Context, unit string) error
}

// UnitState is systemd's state of a unit.
type UnitState struct {
	// Enabled is also true for a unit that only other units start; Static is then set.
	Enabled, Static bool
	// Running is also true for a task that has exited successfully, when Ended is set,
	// and for a unit whose start waits for another's, when Queued is set.
	Running, Ended, Queued bool
	// Outdated is set if the file has changed since systemd read it.
	Outdated bool
	// Started is when the unit was last started; zero if it was not.
	Started time.Time
}

// WithDigest adds to a unit's content a line that systemd ignores and that changes
// with the digest of the texts that the unit reads at startup.
func WithDigest(content string, texts ...string) string {
	sum, _ := resource.Text(resource.Lit(strings.Join(texts, "\x00"))).Digest()
	return strings.TrimSuffix(content, "\n") + "\n\n[X-Kops]\nReads=" + sum + "\n"
}

// dropIn is the suffix of the key of a unit that extends another one.
const dropIn = ".d/10-kops.conf"

// switchedOff is the suffix of the key of a unit that is only Off, and maskedOff of a unit that
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

// unitFile returns the path of the content of the unit with a key.
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
			u.On, u.Current = state.Running && !state.Ended || state.Enabled && !state.Static || u.Masked && !m.isMasked(u.Name), true
			out = append(out, u)
			continue
		}
		info, err := os.Stat(m.path(unitFile(key)))
		switch {
		case isMissing(err):
			if !known || u.DropIn {
				continue
			}
			u.Current = !state.Outdated
		case err != nil:
			return nil, classifyFileError(err)
		default:
			sum, err := fileSHA256(m.path(unitFile(key)))
			if err != nil {
				return nil, classifyFileError(err)
			}
			u.Content = resource.Digested(sum)
			u.Current = !state.Outdated && (state.Ended || state.Queued || !state.Started.Before(info.ModTime()))
		}
		if !state.Enabled && !state.Running {
			u.Current = true // there is no running process that could be outdated
		}
		out = append(out, u)
	}
	return out, nil
}

// hasNewContent reports whether a unit file must get different content.
func hasNewContent(have, want resource.Content) bool {
	if text, _ := want.Value().Known(); text == "" {
		return false
	}
	return !want.Same(have)
}

func convergeUnit(ctx context.Context, m *Machine, u *Unit) error {
	return writeAndStart(ctx, m, u, true)
}

// writeAndStart writes a unit and starts it, or restarts it if anew is set, because it runs with
// an old configuration.
func writeAndStart(ctx context.Context, m *Machine, u *Unit, anew bool) error {
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
	return m.Systemd.Enable(ctx, u.Name, true) // last, because it marks the unit as started
}

// isMasked reports whether a link masks the unit (systemd.unit(5)).
func (m *Machine) isMasked(unit string) bool {
	target, err := os.Readlink(m.path(unitFile(unit)))
	return err == nil && target == os.DevNull
}

// mask masks a unit. It does not replace a unit file that was written on this machine.
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
	if u.Off { // its owner may enable it
		return nil
	}
	if u.DropIn { // the unit itself is the distribution's, and is left alone
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

// Offline is a Systemd for a folder: a unit is enabled by a link, as systemctl
// --root creates it, and counts as running if it is enabled.
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

// States returns states from the links and the files.
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

// Enable creates or removes the link.
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
