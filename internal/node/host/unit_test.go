package host_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/node/host"
)

// broken is a systemd that starts nothing.
type broken struct{ host.Offline }

func (broken) Start(context.Context, string, bool) error { return errors.New("it failed") }

func TestAnOptionalUnitThatDoesNotStartIsAWarning(t *testing.T) {
	k := host.Units.Erase()
	for _, optional := range []bool{false, true} {
		m := machine(t)
		m.Systemd = broken{host.Offline{Root: m.Root}}
		var warned []string
		m.Warn = func(text string) { warned = append(warned, text) }
		u := host.Unit{Name: "x.service", Content: content("[Unit]\n"), On: true, Current: true, Optional: optional}
		_, err := k.Create(t.Context(), m, &u)
		if (err == nil) != optional {
			t.Errorf("optional %t: %v", optional, err)
		}
		if told := strings.Join(warned, "\n"); optional != (told == "the unit x.service did not start: it failed") {
			t.Errorf("optional %t: warned %q", optional, told)
		}
	}
}

// restarts is a systemd in which every unit runs.
type restarts struct {
	host.Offline
	log *[]string
}

func (r restarts) Start(_ context.Context, unit string, anew bool) error {
	*r.log = append(*r.log, fmt.Sprintf("start %s, anew %t", unit, anew))
	return nil
}

// BeforeRestart is called only if a restart stops a running unit.
func TestBeforeRestart(t *testing.T) {
	k := host.Units.Erase()
	m := machine(t)
	var told []string
	m.Systemd = restarts{host.Offline{Root: m.Root}, &told}
	m.BeforeRestart = func(_ context.Context, unit string) { told = append(told, "before "+unit) }
	unit := func(text string, on bool) *host.Unit {
		return &host.Unit{Name: "x.service", Content: content(text), On: on, Current: true}
	}
	if _, err := k.Create(t.Context(), m, unit("[Unit]\n", true)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ have, want *host.Unit }{
		{unit("[Unit]\n", true), unit("[Unit]\n#\n", true)},
		{unit("[Unit]\n#\n", false), unit("[Unit]\n#\n", true)},
		{unit("[Unit]\n", false), unit("[Unit]\n#\n", true)},
	} {
		if _, err := k.Set(t.Context(), m, c.have, c.want, k.Schema().Diff(c.want, c.have)); err != nil {
			t.Fatal(err)
		}
	}
	want := "start x.service, anew true; before x.service; start x.service, anew true; start x.service, anew false; start x.service, anew true"
	if got := strings.Join(told, "; "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// The dependents of an existing file are waited for; a new file has none.
func TestAFileThatIsRewritten(t *testing.T) {
	k := host.Files.Erase()
	m := machine(t)
	var told []string
	m.OnRewrite = func(path string) func(context.Context) {
		text, _ := os.ReadFile(filepath.Join(m.Root, path)) // a missing file counts as empty
		told = append(told, string(text))
		return func(context.Context) {
			text, _ := os.ReadFile(filepath.Join(m.Root, path))
			told = append(told, string(text))
		}
	}
	file := func(text string) *host.File {
		return &host.File{Path: "/x", Content: content(text), Mode: "0600"}
	}
	if _, err := k.Create(t.Context(), m, file("one")); err != nil || len(told) > 0 {
		t.Fatalf("%v, told %v", err, told)
	}
	if _, err := k.Set(t.Context(), m, file("one"), file("two"), k.Schema().Diff(file("two"), file("one"))); err != nil || strings.Join(told, " ") != "one two" {
		t.Errorf("%v, told %v", err, told)
	}
}

// Another unit, or a message on the bus, may start a unit that is only off.
func TestAMaskedUnit(t *testing.T) {
	m := machine(t)
	u, k := host.Unit{Name: "firewalld.service", Off: true, Masked: true, Current: true}, host.Units.Erase()
	look := func() []resource.Change {
		have, err := k.Observe(t.Context(), m, resource.Scope{Names: []string{k.KeyOf(&u)}})
		if err != nil || len(have) != 1 {
			t.Fatal(have, err)
		}
		return k.Schema().Diff(&u, have[0].Got)
	}
	if c := look(); len(c) != 1 || c[0].Field != "On" {
		t.Errorf("of a unit that can be started these change: %+v", c)
	}
	if err := host.Units.Create(t.Context(), m, &u); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(filepath.Join(m.Root, "/etc/systemd/system/firewalld.service")); to != "/dev/null" {
		t.Errorf("the unit leads to %q: %v", to, err)
	}
	if c := look(); len(c) > 0 {
		t.Errorf("of a masked unit these change: %+v", c)
	}
	write(t, m, "/etc/systemd/system/mine.service", "[Unit]\n")
	mine := host.Unit{Name: "mine.service", Off: true, Masked: true, Current: true}
	if err := host.Units.Create(t.Context(), m, &mine); !fault.Is(err, fault.Permanent) || read(t, m, "/etc/systemd/system/mine.service") != "[Unit]\n" {
		t.Errorf("somebody's own unit: %v", err)
	}
}
