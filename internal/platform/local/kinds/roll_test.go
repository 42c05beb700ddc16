package kinds

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/local/keeper"
	"kops.local/kops/internal/platform/local/machine"
	"kops.local/kops/internal/platform/local/site"
)

// tidy is a service that records when it is stopped in order, as etcd would be.
const tidy = `#!/bin/sh
set -e
systemd-run --unit=tidy --property=ExecStop="/bin/sh -c 'hostname >> /mnt/volume/stopped'" --property=RemainAfterExit=yes true
hostname >> /mnt/volume/started
`

// TestRoll: a detached machine is replaced and keeps running, even when the keeper
// dies; a terminated one shuts down in order, and its successor gets its volume; a
// machine that does not shut down is killed.
func TestRoll(t *testing.T) {
	const cluster = "roll.k8s.local"
	l := newLab(t, cluster)
	lit := resource.Lit
	img, net := l.base(cluster, "10.199.6.0/24")
	group := build(l, &MachineGroups, MachineGroup{Cluster: cluster, Name: "nodes", Network: lit(net.ID), Image: lit(img.Path), Size: 1})
	names := func(of string, want ...int) func() error {
		return func() error {
			all, err := machinesIn(l.Client, cluster)
			detached, counted := 0, 0
			for _, m := range all {
				if m.Group != of || !m.Running {
					continue
				}
				if m.Marks.Contains(machine.MarkDetached) {
					detached++
				} else {
					counted++
				}
			}
			if err == nil && (counted != want[0] || detached != want[1]) {
				err = fmt.Errorf("%d machines and %d detached ones", counted, detached)
			}
			return err
		}
	}
	old := l.running(cluster, "nodes")[0]
	l.ok(l.Detach(t.Context(), cluster, old.Name))
	l.ok(l.Detach(t.Context(), cluster, old.Name))
	l.wait("another takes its place", names("nodes", 1, 1))
	s := site.Site{Root: l.Root, Cluster: cluster}
	pid, _ := keeper.Alive(s)
	l.ok(syscall.Kill(pid, syscall.SIGKILL))
	l.wait("another process keeps the cluster", func() error {
		if now, alive := keeper.Alive(s); !alive || now == pid {
			return errors.New("not yet")
		}
		return nil
	})
	begun := time.Now()
	l.ok(l.Terminate(t.Context(), cluster, old.Name))
	t.Logf("a machine was terminated within %s", time.Since(begun).Round(time.Millisecond))
	l.ok(names("nodes", 1, 0)())
	l.ok(l.Detach(t.Context(), cluster, l.running(cluster, "nodes")[0].Name))
	l.wait("another takes its place again", names("nodes", 1, 1))
	remove(l, &MachineGroups, group)
	if left := l.running(cluster, "nodes"); len(left) > 0 {
		t.Errorf("the group is deleted, and left are %v", left)
	}

	vol := build(l, &Volumes, Volume{Cluster: cluster, Name: "a.etcd-main"})
	lines := func(file string) []string {
		data, _ := os.ReadFile(vol.Path + "/" + file)
		return strings.Fields(string(data))
	}
	one := build(l, &MachineGroups, MachineGroup{Cluster: cluster, Name: "cp", Network: lit(net.ID), Image: lit(img.Path), Size: 1,
		UserData: resource.Text(lit(tidy)), Folders: []Folder{{Host: lit(vol.Path), Path: "/mnt/volume"}}})
	started := func(n int) func() error {
		return func() error {
			if got := lines("started"); len(got) != n {
				return fmt.Errorf("started are %v", got)
			}
			return nil
		}
	}
	l.wait("the machine has its volume", started(1))
	first := l.running(cluster, "cp")[0]
	if err := l.Detach(t.Context(), cluster, first.Name); !fault.Is(err, fault.Permanent) || fault.Remedy(err) == "" {
		t.Errorf("a machine with a volume is detached: %v", err)
	}
	l.ok(l.Terminate(t.Context(), cluster, first.Name))
	if got := lines("stopped"); len(got) != 1 || got[0] != first.Name {
		t.Errorf("what ran in it was not stopped in order: %v", got)
	}
	l.wait("its successor has the volume", started(2))
	second := l.running(cluster, "cp")
	if len(second) != 1 || second[0].Name == first.Name || second[0].Address != first.Address {
		t.Errorf("the successor of %v is %v", first, second)
	}

	// A machine that ignores its power button is killed.
	_, err := l.inside(cluster, second[0].Name, "sh", "-c", "mkdir -p /run/systemd/system; ln -s /dev/null /run/systemd/system/poweroff.target; systemctl daemon-reload")
	l.ok(err)
	begun = time.Now()
	l.ok(l.Terminate(t.Context(), cluster, second[0].Name))
	if took := time.Since(begun); took < keeper.EndTime {
		t.Errorf("it ended within %s by itself", took)
	}
	remove(l, &MachineGroups, one)
	remove(l, &Volumes, vol)
	remove(l, &Images, img)
	remove(l, &Networks, net)
	l.nothingLeft()
}
