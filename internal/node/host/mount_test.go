package host_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/node/host"
	"kops.local/kops/internal/test/kindtest"
)

// data returns a mount with its unit.
func data(device, path string, options ...string) host.Mount {
	v := host.Mount{Path: path, Device: device, Filesystem: "ext4", FormatOptions: []string{"-L", "x"}}
	v.Unit = content(host.MountUnit(v, options))
	return v
}

// diary is a systemd that records the calls that it receives.
type diary struct {
	host.Offline
	ran *[]string
}

func (d diary) Start(_ context.Context, unit string, _ bool) error {
	*d.ran = append(*d.ran, "start "+unit)
	return nil
}

func (d diary) Enable(ctx context.Context, unit string, on bool) error {
	if on {
		*d.ran = append(*d.ran, "enable "+unit)
	}
	return d.Offline.Enable(ctx, unit, on)
}

func TestOnlyAnEmptyDeviceIsFormatted(t *testing.T) {
	for _, c := range []struct {
		exit           string
		holds          string
		ran            []string
		message        string
		withoutADevice bool
	}{
		{exit: "2", ran: []string{"blkid", "mkfs.ext4 -L x /dev/d", "enable data.mount", "start data.mount"}},
		{holds: "ext4\n", ran: []string{"blkid", "enable data.mount", "start data.mount"}},
		{holds: "xfs\n", ran: []string{"blkid"}, message: "the device /dev/d contains xfs, not ext4"},
		{holds: "", ran: []string{"blkid"}, message: "the device /dev/d contains partitions, not ext4"},
		{exit: "8", ran: []string{"blkid"}, message: "sh: exit status 8: "},
		{withoutADevice: true, message: "the device /dev/d does not exist"},
	} {
		m := machine(t)
		if !c.withoutADevice {
			write(t, m, "/dev/d", "")
		}
		var ran []string
		m.Systemd = diary{host.Offline{Root: m.Root}, &ran}
		m.Command = func(ctx context.Context, name string, args ...string) ([]byte, error) {
			if name != "blkid" {
				ran = append(ran, name+" "+strings.Join(args, " "))
				return nil, nil
			}
			ran = append(ran, name)
			if c.exit != "" {
				return host.Run(ctx, "sh", "-c", "exit "+c.exit)
			}
			return []byte(c.holds), nil
		}
		v := data("/dev/d", "/data")
		err := host.Mounts.Create(t.Context(), m, &v)
		if got := strings.Join(ran, "; "); got != strings.Join(c.ran, "; ") || (err == nil) != (c.message == "") || err != nil && err.Error() != c.message {
			t.Errorf("ran %s: %v", got, err)
		}
	}
}

// The machine mounts it by itself on boot, long before nodeup runs.
func TestTheLifeOfAMount(t *testing.T) {
	m := machine(t)
	kindtest.Run(t, &host.Mounts, m, kindtest.Life[host.Mount]{OnlyNamed: true, Want: data("/dev/d", "/my-data"),
		Changes: []kindtest.Change[host.Mount]{{Name: "options", Do: func(v *host.Mount) { v.Unit = data("/dev/d", "/my-data", "noatime").Unit }}}})
	v := data("/dev/d", "/my-data", "noatime", "nosuid")
	if err := host.Mounts.Create(t.Context(), m, &v); err != nil {
		t.Fatal(err)
	}
	const unit = `my\x2ddata.mount`
	want := "[Unit]\nDescription=/dev/d on /my-data\n\n[Mount]\nWhat=/dev/d\nWhere=/my-data\nType=ext4\nOptions=noatime,nosuid\n\n[Install]\nWantedBy=local-fs.target\n"
	if got := read(t, m, "/etc/systemd/system/"+unit); got != want {
		t.Errorf("the unit is\n%s", got)
	}
	if target, err := os.Readlink(filepath.Join(m.Root, "/etc/systemd/system/local-fs.target.wants", unit)); err != nil || target != "/etc/systemd/system/"+unit {
		t.Errorf("it is wanted as %q: %v", target, err)
	}
}

// If a run was interrupted and the mount is not mounted on the next boot, it is repaired.
func TestAMountThatEndsWithTheMachineIsRepaired(t *testing.T) {
	want, k := data("/dev/d", "/my data"), host.Mounts.Erase()
	for _, c := range []struct {
		name    string
		prepare func(*host.Machine)
		mends   bool
	}{
		{"mounted by hand", func(*host.Machine) {}, true},
		{"a unit that is not enabled", func(m *host.Machine) { write(t, m, `/etc/systemd/system/my\x20data.mount`, text(t, want.Unit)) }, true},
		{"a unit of before", func(m *host.Machine) {
			old := data("/dev/d", "/my data", "ro")
			if err := host.Mounts.Create(t.Context(), folder(m), &old); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"the unit", func(m *host.Machine) {
			if err := host.Mounts.Create(t.Context(), folder(m), &want); err != nil {
				t.Fatal(err)
			}
		}, false},
	} {
		m := machine(t)
		m.Command = host.Run
		write(t, m, "/proc/self/mounts", "/dev/d /my\\040data ext4 rw 0 0\n")
		c.prepare(m)
		have, err := k.Observe(t.Context(), m, resource.Scope{Names: []string{k.KeyOf(&want), "/dev/e on /other"}})
		if err != nil || len(have) != 1 {
			t.Fatal(c.name, have, err)
		}
		changes := k.Schema().Diff(&want, have[0].Got)
		if (len(changes) == 1 && changes[0].Field == "Unit") != c.mends || len(changes) > 1 {
			t.Errorf("%s: %+v", c.name, changes)
		}
		if !c.mends {
			continue
		}
		if _, err := k.Set(t.Context(), m, have[0].Got, &want, changes); err != nil {
			t.Fatal(c.name, err)
		}
		if have, err = k.Observe(t.Context(), m, resource.Scope{Names: []string{k.KeyOf(&want)}}); err != nil || len(k.Schema().Diff(&want, have[0].Got)) > 0 {
			t.Errorf("%s: it stays so: %v %+v", c.name, err, have)
		}
	}
}

// folder returns a machine in a folder, in which no program is run.
func folder(m *host.Machine) *host.Machine {
	return &host.Machine{Root: m.Root, Systemd: m.Systemd, Now: m.Now}
}

func text(t *testing.T, c resource.Content) string {
	t.Helper()
	s, known := c.Value().Known()
	if !known {
		t.Fatal("the content is not known")
	}
	return s
}

// Systemd finds a mount only by its unit's name.
func TestUnitsOfMountsAreNamedAsSystemdDoes(t *testing.T) {
	program, err := exec.LookPath("systemd-escape")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("CANNOT RUN: there is no systemd-escape")
		}
		t.Skip("SKIPPED, NOTHING WAS TESTED: there is no systemd-escape")
	}
	for _, path := range []string{"/", "/data", "/var/lib/my-data", "/a b/c%d", "/.hidden/x", `/back\slash`, "/mnt/é", "/x:y_z.1"} {
		m := machine(t)
		v := data("/dev/d", path)
		if err := host.Mounts.Create(t.Context(), m, &v); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), program, "--path", "--suffix=mount", path).Output()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(m.Root, "/etc/systemd/system", strings.TrimSpace(string(out)))); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// The kernel reports the real device if the configuration names a link to it.
func TestADeviceThatIsNamedByALink(t *testing.T) {
	m := machine(t)
	m.Command = host.Run
	write(t, m, "/dev/nvme1n1", "")
	write(t, m, "/dev/nvme2n1", "")
	if err := os.Symlink("nvme1n1", filepath.Join(m.Root, "/dev/xvdf")); err != nil {
		t.Fatal(err)
	}
	want, k := data("/dev/xvdf", "/data"), host.Mounts.Erase()
	if err := host.Mounts.Create(t.Context(), folder(m), &want); err != nil {
		t.Fatal(err)
	}
	for device, message := range map[string]string{"/dev/nvme1n1": "", "/dev/nvme2n1": "the device /dev/nvme2n1 is mounted on /data, not /dev/xvdf", "tmpfs": "the device tmpfs is mounted on /data, not /dev/xvdf"} {
		write(t, m, "/proc/self/mounts", device+" /data ext4 rw 0 0\n")
		have, err := k.Observe(t.Context(), m, resource.Scope{Names: []string{k.KeyOf(&want)}})
		switch {
		case message != "":
			if err == nil || !strings.HasSuffix(err.Error(), message) || !fault.Is(err, fault.Permanent) {
				t.Errorf("%s: %v", device, err)
			}
		case err != nil || len(have) != 1 || have[0].Key != k.KeyOf(&want) || len(k.Schema().Diff(&want, have[0].Got)) > 0:
			t.Errorf("%s: %+v, %v", device, have, err)
		}
	}
}
