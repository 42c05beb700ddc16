package kinds

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/node/agent/report"
	"kops.local/kops/internal/platform/local/keeper"
	"kops.local/kops/internal/platform/local/machine"
	"kops.local/kops/internal/platform/local/site"
)

// TestLimits: a machine fills its disk and uses memory up to its own limits; the host
// and another machine keep running, and the host gets back the space that it frees.
func TestLimits(t *testing.T) {
	const cluster = "limits.k8s.local"
	l := newLab(t, cluster)
	lit := resource.Lit
	img, net := l.base(cluster, "10.199.6.0/24")
	group := build(l, &MachineGroups, MachineGroup{Cluster: cluster, Name: "small", Network: lit(net.ID), Image: lit(img.Path), Size: 1, MemoryMiB: 256, DiskGiB: 2})
	other := build(l, &MachineGroups, MachineGroup{Cluster: cluster, Name: "plain", Network: lit(net.ID), Image: lit(img.Path), Size: 1})
	small, plain := l.running(cluster, "small")[0].Name, l.running(cluster, "plain")[0].Name
	must := func(machine string, command ...string) string {
		t.Helper()
		out, err := l.inside(cluster, machine, command...)
		l.ok(err)
		return out
	}
	for _, m := range []string{small, plain} {
		l.wait(m+" is up", func() error {
			if out, err := l.inside(cluster, m, "systemctl", "is-system-running"); out != "running" {
				return fmt.Errorf("%s: %w", out, err)
			}
			return nil
		})
	}

	l.fillDisk(cluster, small)
	for _, m := range []string{small, plain} {
		must(m, "sh", "-c", "echo on > /root/after && grep -q on /root/after")
	}

	// A service is in the machine's control groups; a command run in the machine is not. If no
	// limit stops it, it exits by itself with success.
	must(small, "systemd-run", "--quiet", "--unit=eater", "--property=Type=oneshot", "--no-block", "sh", "-c", "head -c 1G /dev/zero | tail")
	l.wait("what eats memory is killed", func() error {
		out := must(small, "systemctl", "show", "--property=ActiveState", "eater")
		if out == "ActiveState=inactive" {
			t.Fatal("A MACHINE OF 256 MiB ATE 1 GiB")
		}
		if out != "ActiveState=failed" {
			return errors.New(out)
		}
		return nil
	})
	for _, m := range []string{small, plain} {
		if out := must(m, "systemctl", "is-active", "systemd-journald"); out != "active" {
			t.Errorf("%s is %s", m, out)
		}
	}
	one, all := l.memoryLimits(cluster, plain)
	if host := hostMemory(t); one >= all || all >= host || one < host/2 {
		t.Errorf("of %d bytes a machine that names no size may have %d, and all %d", host, one, all)
	}
	if total := must(plain, "awk", "/MemTotal/ {print $2}", "/proc/meminfo"); total != strconv.FormatInt(one>>10, 10) {
		t.Errorf("it believes to have %s kB, and may have %d bytes", total, one)
	}

	l.reports(cluster, plain)
	l.refused(cluster, other)

	// Console output does not fill the host's disk.
	h, err := l.Host(cluster)
	l.ok(err)
	must(small, "sh", "-c", "yes | head -c 40000000 > /dev/console")
	if log, err := h.Log(small); err != nil || len(log) == 0 || len(log) > 16<<20 {
		t.Errorf("of 40 MB on the console %d bytes are kept: %v", len(log), err)
	}

	// A command that is stopped and then killed, as when a machine ends, returns.
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = l.inside(cluster, small, "sh", "-c", "echo $$ > /run/stopped; kill -STOP $$")
	}()
	l.wait("a command is stopped, and killed", func() error {
		_, err := l.inside(cluster, small, "sh", "-c", `p=$(cat /run/stopped) && grep -q "^State:.T" /proc/$p/status && kill -KILL $p`)
		return err
	})
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("it is still waited for")
	}

	must(small, "touch", "/root/mark")
	_, _ = l.inside(cluster, small, "systemctl", "reboot") // this ends the command, too
	l.wait("it is restarted, with its disk", func() error {
		_, err := l.inside(cluster, small, "sh", "-c", "test -e /root/mark && systemctl is-active multi-user.target")
		return err
	})
	remove(l, &MachineGroups, group)
	remove(l, &MachineGroups, other)
	remove(l, &Images, img)
	remove(l, &Networks, net)
	l.nothingLeft()
}

// fillDisk writes to a machine's disks until no space is left.
func (l *lab) fillDisk(cluster, name string) {
	l.Helper()
	const some = 64 << 20 // the machine may write or free this much otherwise
	before := l.diskUsage()
	for _, file := range []string{"/full", "/var/lib/kubelet/full", "/var/log/full"} {
		out, err := l.inside(cluster, name, "dd", "if=/dev/zero", "bs=1M", "of="+file)
		if err == nil || !strings.Contains(out, "No space left on device") {
			l.Errorf("%s: %q, %v", file, out, err)
		}
	}
	_, err := l.inside(cluster, name, "sync")
	l.ok(err)
	if took := l.diskUsage() - before; took > 2<<30+some {
		l.Errorf("a full disk of 2 GiB takes %d MiB of the host's", took>>20)
	} else if took < 1<<30 {
		l.Errorf("a full disk of 2 GiB takes %d MiB only: it is not on the host's file system", took>>20)
	}
	_, err = l.inside(cluster, name, "sh", "-c", "rm -f /full /var/lib/kubelet/full /var/log/full && sync")
	l.ok(err)
	l.wait("the host has its space back", func() error {
		if took := l.diskUsage() - before; took > some {
			return fmt.Errorf("%d MiB are not back", took>>20)
		}
		return nil
	})
}

// diskUsage returns the space, in bytes, that all clusters take of the host's disk. The
// free space is less exact: other programs write and delete meanwhile.
func (l *lab) diskUsage() (bytes int64) {
	l.Helper()
	out, err := exec.Command("du", "--summarize", "--block-size=1", l.Root).Output()
	l.ok(err)
	_, err = fmt.Sscan(string(out), &bytes)
	l.ok(err)
	return bytes
}

// memoryLimits returns the limits of a machine and of all machines of the host, in bytes.
func (l *lab) memoryLimits(cluster, name string) (one, all int64) {
	l.Helper()
	h, err := l.Host(cluster)
	l.ok(err)
	read := func(dir string) int64 {
		for _, file := range []string{"memory.limit_in_bytes", "memory.max"} { // versions 1 and 2
			if data, err := os.ReadFile(filepath.Join(dir, file)); err == nil {
				n, _ := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64) // "max" means no limit
				return n
			}
		}
		return 0
	}
	for _, dir := range h.Group(name).Dirs() {
		one, all = max(one, read(dir)), max(all, read(filepath.Dir(filepath.Dir(dir))))
	}
	return one, all
}

func hostMemory(t *testing.T) int64 {
	t.Helper()
	var s syscall.Sysinfo_t
	if err := syscall.Sysinfo(&s); err != nil {
		t.Fatal(err)
	}
	return int64(s.Totalram) * int64(s.Unit)
}

// reports checks that the boot report of a running machine can be read, and that a link in
// it cannot reach the host's files.
func (l *lab) reports(cluster, name string) {
	l.Helper()
	h, err := l.Host(cluster)
	l.ok(err)
	if got, err := h.BootReport(l.Context(), name); err != nil || got != nil {
		l.Errorf("before there is a report: %q, %v", got, err)
	}
	_, err = l.inside(cluster, name, "ln", "-s", "/../../../../etc/hostname", report.File)
	l.ok(err)
	if got, err := h.BootReport(l.Context(), name); err == nil {
		l.Errorf("a link that leads out of the machine: %q", got)
	}
	_, err = l.inside(cluster, name, "sh", "-c", "rm "+report.File+" && echo '{}' > "+report.File)
	l.ok(err)
	if got, err := h.BootReport(l.Context(), name); err != nil || string(got) != "{}\n" {
		l.Errorf("the report of a machine that runs: %q, %v", got, err)
	}
}

// refused requests more disk than the host has, which fails for new machines only.
func (l *lab) refused(cluster string, g *MachineGroup) {
	l.Helper()
	had := l.running(cluster, g.Name)
	want := *g
	want.DiskGiB, want.Size = 1<<20, 2
	l.ok(MachineGroups.Update[0].Set(l.Context(), l.Client, g, &want))
	l.wait("the refusal", func() error {
		err := keeper.Trouble(site.Site{Root: l.Root, Cluster: cluster}, site.Groups, g.Name)
		if !fault.Is(err, fault.Permanent) || !strings.Contains(err.Error(), "1048576 GiB") || !strings.Contains(fault.Remedy(err), "spec.rootVolumeSize") {
			return fmt.Errorf("told is: %w", errors.Join(err, errors.New(fault.Remedy(err))))
		}
		return nil
	})
	if now := l.running(cluster, g.Name); !slices.EqualFunc(had, now, func(a, b machine.Machine) bool { return a.Name == b.Name }) {
		l.Errorf("the machines were %v and are %v", had, now)
	}
	l.ok(MachineGroups.Update[0].Set(l.Context(), l.Client, &want, g))
}
