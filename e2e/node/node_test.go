package node

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/node/agent"
	"kops.local/kops/internal/node/host"
	"kops.local/kops/internal/test/kindtest"
)

// TestMain reserves the tests whose names begin with TestInside for TestInAMachine.
func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv(inside) == "" {
		if err := flag.Set("test.skip", "^TestInside"); err != nil {
			panic(err) // the testing package has no such flag
		}
	}
	os.Exit(m.Run())
}

// TestInAMachine runs the tests whose names begin with TestInside in a machine.
func TestInAMachine(t *testing.T) {
	g := boot(t)
	out, err := g.host.RunInside(t.Context(), name, "env", inside+"=yes", "HOME=/root", filepath.Join(markerFile, program), "-test.run=^TestInside", "-test.v", "-test.timeout=60s")
	t.Logf("in the machine:\n%s", out)
	if err != nil {
		t.Error("the tests in the machine failed")
	}
	if !bytes.Contains(out, []byte("--- PASS: TestInside")) || bytes.Contains(out, []byte("--- SKIP")) {
		t.Error("not all tests in the machine were run")
	}
}

// within returns this machine.
func within(t *testing.T) *host.Machine {
	t.Helper()
	systemd, err := host.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(systemd.Close)
	return &host.Machine{Root: "/", Chown: true, Command: host.Run, Systemd: systemd, Now: time.Now}
}

func content(s string) resource.Content { return resource.Text(resource.Lit(s)) }

// service returns a unit that runs a command.
func service(kind, command string) string {
	return "[Service]\nType=" + kind + "\nExecStart=" + command + "\n\n[Install]\nWantedBy=multi-user.target\n"
}

func TestInsideUnits(t *testing.T) {
	m := within(t)
	change := []kindtest.Change[host.Unit]{
		{Name: "content", Do: func(u *host.Unit) { u.Content = content(service("exec", "/bin/sleep 1001")) }},
		{Name: "off", Do: func(u *host.Unit) { u.On = false }}, {Name: "on again", Do: func(u *host.Unit) { u.On = true }}}
	kindtest.Run(t, &host.Units, m, kindtest.Life[host.Unit]{OnlyNamed: true, Changes: change,
		Want:       host.Unit{Name: "kops-test.service", Content: content(service("exec", "/bin/sleep 1000")), On: true, Current: true},
		Unrepeated: map[string]string{"on again": "its file is written again and then newer than its start, so the next run restarts it"},
		Untested:   map[string]string{"Current": "see TestInsideAUnitThatIsOlderThanItsFile"}})
	if unitState(t, m, "kops-test.service") != nil {
		t.Error("systemd still knows the unit")
	}
}

// unitState returns systemd's state of a unit; nil if systemd does not know it.
func unitState(t *testing.T, m *host.Machine, unit string) *host.UnitState {
	t.Helper()
	all, err := m.Systemd.States(t.Context(), []string{unit})
	if err != nil {
		t.Fatal(err)
	}
	if s, ok := all[unit]; ok {
		return &s
	}
	return nil
}

func create(t *testing.T, m *host.Machine, u host.Unit) error {
	t.Helper()
	t.Cleanup(func() {
		if err := host.Units.Delete(context.Background(), m, &u); err != nil {
			t.Error(err)
		}
	})
	return host.Units.Create(t.Context(), m, &u)
}

func TestInsideAUnitThatIsOlderThanItsFile(t *testing.T) {
	m := within(t)
	u := host.Unit{Name: "kops-old.service", Content: content(service("exec", "/bin/sleep 1000")), On: true, Current: true}
	if err := create(t, m, u); err != nil {
		t.Fatal(err)
	}
	k := host.Units.Erase()
	changes := func() []resource.Change {
		have, err := k.Observe(t.Context(), m, resource.Scope{Names: []string{u.Name}})
		if err != nil || len(have) != 1 {
			t.Fatal(have, err)
		}
		return k.Schema().Diff(&u, have[0].Got)
	}
	if c := changes(); len(c) != 0 {
		t.Errorf("a unit that was just started is to change: %+v", c)
	}
	later := time.Now().Add(time.Second)
	if err := os.Chtimes("/etc/systemd/system/"+u.Name, later, later); err != nil {
		t.Fatal(err)
	}
	if c := changes(); len(c) != 1 || c[0].Field != "Current" {
		t.Errorf("of a unit whose file is younger these change: %+v", c)
	}
}

func TestInsideAUnitThatDoesNotStart(t *testing.T) {
	m := within(t)
	for _, c := range []struct{ name, kind, command, message string }{
		{"kops-fails.service", "oneshot", "/bin/false", "kops-fails.service did not start: failed"},
		{`kops\x2dfails.service`, "oneshot", "/bin/false", `kops\x2dfails.service did not start: failed`},
		{"kops-ends.service", "notify", "/bin/true", "kops-ends.service did not start: failed"},
		{"kops-none.service", "exec", "/nowhere", "kops-none.service did not start: failed"},
	} {
		u := host.Unit{Name: c.name, Content: content(service(c.kind, c.command)), On: true, Current: true}
		err := create(t, m, u)
		word := c.name
		if strings.Contains(word, `\`) { // which a shell would remove
			word = "'" + word + "'"
		}
		if !fault.Is(err, fault.NotYet) || err.Error() != c.message || fault.Remedy(err) != "see its log: journalctl --unit="+word {
			t.Errorf("%s: %s %v; %s", c.name, fault.Of(err), err, fault.Remedy(err))
		}
		if s := unitState(t, m, c.name); s == nil || s.Running {
			t.Errorf("%s: %+v", c.name, s)
		}
	}
}

func TestInsideATaskThatHasRun(t *testing.T) {
	m := within(t)
	u := host.Unit{Name: "kops-task.service", Content: content(service("oneshot", "/bin/true")), On: true, Current: true}
	if err := create(t, m, u); err != nil {
		t.Fatal(err)
	}
	if s := unitState(t, m, u.Name); s == nil || !s.Running || !s.Ended || !s.Enabled {
		t.Errorf("a task that ended well: %+v", s)
	}
	have, err := host.Units.List(t.Context(), m, resource.Scope{Names: []string{u.Name}})
	if err != nil || len(have) != 1 || !have[0].On || !have[0].Current {
		t.Errorf("a task that ended well is to be started again: %v %+v", err, have)
	}
}

// A drop-in adds to a unit of the distribution, which keeps running without it.
func TestInsideADropIn(t *testing.T) {
	m := within(t)
	const file = "/usr/lib/systemd/system/kops-theirs.service"
	if err := os.WriteFile(file, []byte(service("exec", "/bin/sleep 1000")), 0o644); err != nil {
		t.Fatal(err)
	}
	kindtest.Run(t, &host.Units, m, kindtest.Life[host.Unit]{OnlyNamed: true,
		Want:     host.Unit{Name: "kops-theirs.service", DropIn: true, Content: content("[Service]\nNice=3\n"), On: true, Current: true},
		Changes:  []kindtest.Change[host.Unit]{{Name: "content", Do: func(u *host.Unit) { u.Content = content("[Service]\nNice=4\n") }}},
		Untested: map[string]string{"Current": "see TestInsideAUnitThatIsOlderThanItsFile", "On": "see TestInsideUnits"}})
	if s := unitState(t, m, "kops-theirs.service"); s == nil || !s.Running || !s.Enabled {
		t.Errorf("without its drop-in the unit is %+v", s)
	}
	ctx := t.Context()
	if err := errors.Join(m.Systemd.Stop(ctx, "kops-theirs.service"), m.Systemd.Enable(ctx, "kops-theirs.service", false), os.Remove(file), m.Systemd.Reload(ctx)); err != nil {
		t.Error(err)
	}
}

// A mount by nodeup is mounted by the machine itself after a restart. A file system in
// memory replaces one on a device, which a container cannot mount.
func TestInsideAMount(t *testing.T) {
	m := within(t)
	m.Command = func(ctx context.Context, name string, args ...string) ([]byte, error) {
		if name == "blkid" {
			return []byte("tmpfs\n"), nil
		}
		return host.Run(ctx, name, args...)
	}
	v := host.Mount{Path: "/mnt/my-data", Device: "/dev/null", Filesystem: "tmpfs"}
	v.Unit = content(host.MountUnit(v, []string{"size=1m"}))
	const unit = `mnt-my\x2ddata.mount`
	if err := host.Mounts.Create(t.Context(), m, &v); err != nil {
		t.Fatal(err)
	}
	k := host.Mounts.Erase()
	have, err := k.Observe(t.Context(), m, resource.Scope{Names: []string{k.KeyOf(&v)}})
	if err != nil || len(have) != 1 || len(k.Schema().Diff(&v, have[0].Got)) > 0 {
		t.Errorf("%v %+v", err, have)
	}
	if s := unitState(t, m, unit); s == nil || !s.Running || !s.Enabled {
		t.Errorf("its unit is %+v", s)
	}
	if err := host.Mounts.Delete(t.Context(), m, &v); err != nil {
		t.Error(err)
	}
	if s := unitState(t, m, unit); s != nil {
		t.Errorf("without it its unit is %+v", s)
	}
}

// At boot, nodeup checks while kubelet waits for containerd.
func TestInsideAUnitThatWaitsForAnother(t *testing.T) {
	m := within(t)
	slow := host.Unit{Name: "kops-slow.service", Content: content(service("oneshot", "/bin/sh -c 'until test -e /run/kops-go-on; do sleep 0.1; done'")), On: true, Current: true}
	waits := host.Unit{Name: "kops-waits.service", Content: content("[Unit]\nAfter=kops-slow.service\n" + service("exec", "/bin/sleep 1000")), On: true, Current: true}
	const goOn = "/run/kops-go-on"
	if err := os.WriteFile(goOn, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, k := t.Context(), host.Units.Erase()
	for _, u := range []host.Unit{slow, waits} {
		if err := create(t, m, u); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(m.Systemd.Stop(ctx, waits.Name), os.Remove(goOn)); err != nil {
		t.Fatal(err)
	}
	if out, err := host.Run(ctx, "systemctl", "start", "--no-block", slow.Name, waits.Name); err != nil {
		t.Fatal(err, string(out))
	}
	if s := unitState(t, m, waits.Name); s == nil || !s.Queued || !s.Running || s.Ended {
		t.Errorf("while it waits, the unit is %+v", s)
	}
	have, err := k.Observe(ctx, m, resource.Scope{Names: []string{k.KeyOf(&waits)}})
	if err != nil || len(have) != 1 || len(k.Schema().Diff(&waits, have[0].Got)) > 0 {
		t.Errorf("%v %+v", err, have)
	}
	if err := errors.Join(os.WriteFile(goOn, nil, 0o644), m.Systemd.Start(ctx, waits.Name, false)); err != nil {
		t.Fatal(err)
	}
	started := unitState(t, m, waits.Name).Started
	if err := m.Systemd.Start(ctx, waits.Name, false); err != nil || !unitState(t, m, waits.Name).Started.Equal(started) {
		t.Errorf("a unit that runs was started anew: %v", err)
	}
	if err := m.Systemd.Start(ctx, waits.Name, true); err != nil || unitState(t, m, waits.Name).Started.Equal(started) {
		t.Errorf("the unit was not started anew: %v", err)
	}
}

// Nothing starts a masked unit, not even another unit that requires it.
func TestInsideAMaskedUnit(t *testing.T) {
	m := within(t)
	const file = "/usr/lib/systemd/system/kops-masked.service"
	if err := os.WriteFile(file, []byte(service("exec", "/bin/sleep 1000")), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if err := errors.Join(m.Systemd.Reload(ctx), m.Systemd.Start(ctx, "kops-masked.service", true), m.Systemd.Enable(ctx, "kops-masked.service", true)); err != nil {
		t.Fatal(err)
	}
	u, k := host.Unit{Name: "kops-masked.service", Off: true, Masked: true, Current: true}, host.Units.Erase()
	if err := host.Units.Create(ctx, m, &u); err != nil {
		t.Fatal(err)
	}
	have, err := k.Observe(ctx, m, resource.Scope{Names: []string{k.KeyOf(&u)}})
	if err != nil || len(have) != 1 || len(k.Schema().Diff(&u, have[0].Got)) > 0 {
		t.Errorf("%v %+v", err, have)
	}
	if err := m.Systemd.Start(ctx, u.Name, true); err == nil {
		t.Error("a masked unit was started")
	}
	if err := errors.Join(os.Remove("/etc/systemd/system/"+u.Name), os.Remove(file), m.Systemd.Reload(ctx)); err != nil {
		t.Error(err)
	}
}

func TestInsideManyReloadsAreFew(t *testing.T) {
	m := within(t)
	alone := time.Now()
	if err := m.Systemd.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	one := time.Since(alone)
	var wg sync.WaitGroup
	begin := time.Now()
	for range 40 {
		wg.Go(func() {
			if err := m.Systemd.Reload(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	took := time.Since(begin)
	t.Logf("one reload takes %s, forty at once %s", one, took)
	if took > 12*one+time.Second {
		t.Errorf("forty reloads took %s, and one %s", took, one)
	}
}

// The image contains the packages that nodeup needs on every machine: without a network it could not install any.
func TestInsideNoPackageIsMissing(t *testing.T) {
	m := within(t)
	const names = "iptables libapparmor1 libseccomp2 logrotate util-linux"
	have, err := host.PackageSets.List(t.Context(), m, resource.Scope{Names: []string{"apt " + names, "apt " + names + " kops-no-such-package"}})
	if err != nil || len(have) != 1 || have[0].Names != names {
		t.Errorf("%v %+v", err, have)
	}
}

func TestInsideAMachineKnowsItself(t *testing.T) {
	m := within(t)
	p := agent.Probe{Root: "/", Arch: "amd64", Hostname: os.Hostname, Addresses: net.InterfaceAddrs, Command: m.Command}
	h, err := p.Detect(t.Context(), &nodeconfig.Boot{CloudProvider: "local"}, &nodeconfig.Config{})
	if err != nil {
		t.Fatal(err)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	if h.NodeName != name || h.Like != "debian" || !h.Contained || !h.LacksLogind || h.CgroupV1 != strings.Contains(string(mounts), " /sys/fs/cgroup/memory cgroup ") ||
		len(h.Addresses) != 1 || !strings.HasPrefix(h.Addresses[0], "10.199.77.") {
		t.Errorf("%+v", h)
	}
}

// A systemd that re-executes itself, as after an upgrade of its package, is found again.
func TestInsideSystemdIsReplaced(t *testing.T) {
	m := within(t)
	u := host.Unit{Name: "kops-slow.service", Content: content(service("oneshot", "/bin/sleep 2")), On: true, Current: true}
	replaced := make(chan error, 1)
	time.AfterFunc(time.Second, func() {
		_, err := host.Run(context.Background(), "systemctl", "daemon-reexec")
		replaced <- err
	})
	err := create(t, m, u)
	if rerr := <-replaced; rerr != nil {
		t.Fatal(rerr)
	}
	if err != nil && !fault.Of(err).Retryable() {
		t.Errorf("an error that is not tried again: %v", err)
	}
	if err := host.Units.Create(t.Context(), m, &u); err != nil {
		t.Errorf("the second try: %v", err)
	}
}
