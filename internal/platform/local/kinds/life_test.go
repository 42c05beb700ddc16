package kinds

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/local/ground"
	"kops.local/kops/internal/platform/local/keeper"
	"kops.local/kops/internal/platform/local/machine"
	"kops.local/kops/internal/platform/local/site"
)

// containerGroup is a control group inside a machine, as a shell expression: in the
// memory tree, or in the only one.
const containerGroup = "/sys/fs/cgroup/$(cd /sys/fs/cgroup; [ ! -d memory ] || echo memory)/container"

const hello = `#!/bin/sh
set -e
echo "$(hostname) has $(awk '/MemTotal/ {print $2}' /proc/meminfo) kB"
echo "start of $(hostname)" >> /mnt/volume/starts
`

// TestGroup: a machine boots and runs its user data; it is restarted from inside and is
// still the same; it is killed and replaced; the volume contains what both wrote; two
// clusters do not disturb each other; and at the end the host is as before.
func TestGroup(t *testing.T) {
	const one, two = "one.k8s.local", "two.k8s.local"
	l := newLab(t, one, two)
	lit := resource.Lit
	img, net := l.base(one, "10.199.2.0/24")
	img2, net2 := l.base(two, "10.199.3.0/24")
	vol := build(l, &Volumes, Volume{Cluster: one, Name: "a.etcd-main"})
	starts := filepath.Join(vol.Path, "starts")
	lines := func(n int) func() error {
		return func() error {
			data, err := os.ReadFile(starts)
			if err == nil && strings.Count(string(data), "\n") != n {
				err = fmt.Errorf("%d machines have started:\n%s", strings.Count(string(data), "\n"), data)
			}
			return err
		}
	}
	group := build(l, &MachineGroups, MachineGroup{Cluster: one, Name: "control-plane-a", Network: lit(net.ID), Image: lit(img.Path), Size: 1,
		MemoryMiB: 512, UserData: resource.Text(lit(hello)), Folders: []Folder{{lit(vol.Path), "/mnt/volume", false}, {lit(net.Registry), "/mnt/machines", true}},
		Labels: map[string]string{"role": "control-plane"}})
	other := build(l, &MachineGroups, MachineGroup{Cluster: two, Name: "control-plane-a", Network: lit(net2.ID), Image: lit(img2.Path), Size: 1})
	l.wait("user data has run", lines(1))
	first := l.running(one, group.Name)[0]
	l.wait("the machine is up", func() error {
		out, err := l.inside(one, first.Name, "systemctl", "is-system-running")
		if err == nil && out != "running" {
			err = errors.New(out)
		}
		return err
	})
	checkInside(l, one, first.Name)

	// The group stands for those of containers, which would delay the kubelet at its next start.
	_, err := l.inside(one, first.Name, "sh", "-c", "touch /root/mark && mkdir "+containerGroup+" && systemctl reboot")
	l.ok(err)
	l.wait("restarted from inside", func() error {
		h, err := l.Host(one)
		l.ok(err)
		log, err := h.Log(first.Name)
		if err == nil && !strings.Contains(string(log), "kops: start 2 ") {
			err = errors.New("it has not restarted")
		}
		if err == nil {
			_, err = l.inside(one, first.Name, "test", "-e", "/root/mark")
		}
		return err
	})
	if got := l.running(one, group.Name); len(got) != 1 || got[0].Name != first.Name {
		t.Errorf("after the restart the machines are %v, not %s", got, first.Name)
	}
	l.ok(lines(1)()) // the user data does not run again
	h, err := l.Host(one)
	l.ok(err)
	for _, dir := range h.Group(first.Name).Dirs() {
		for _, below := range []string{"", "start-*"} {
			if left, err := filepath.Glob(filepath.Join(dir, below, "container")); err != nil || len(left) > 0 {
				t.Errorf("after the restart the machine has control groups of before: %v (%v)", left, err)
			}
		}
	}

	l.killAll(one, first.Name)
	l.wait("a killed machine is replaced", lines(2))
	second := l.running(one, group.Name)
	if len(second) != 1 || second[0].Name == first.Name || second[0].Address != first.Address {
		t.Errorf("%s was to be replaced: %v", first.Name, second)
	}
	if entries, err := site.List(site.Site{Root: l.Root, Cluster: one}.Path(site.Registry)); err != nil || len(entries) != 1 {
		t.Errorf("the registry has %v (%v), not one machine", entries, err)
	}

	l.ok(ground.SetSysctl(ground.Sysctls, "kernel/panic", "10")) // as a kubelet does
	remove(l, &MachineGroups, group)
	remove(l, &Volumes, vol)
	remove(l, &Images, img)
	remove(l, &Networks, net)
	if len(l.running(two, other.Name)) != 1 {
		t.Error("the deletion of one cluster took a machine of another")
	}
	remove(l, &MachineGroups, other)
	remove(l, &Images, img2)
	remove(l, &Networks, net2)
	l.nothingLeft()
}

// checkInside checks a machine's input and permissions from inside.
func checkInside(l *lab, cluster, name string) {
	l.Helper()
	for command, want := range map[string]string{
		"ls /mnt/machines": name + ".json",
		"hostname":         name,
		"awk '/MemTotal/ {print $2}' /proc/meminfo":                                   "524288",
		"grep -o '\"role\": \"control-plane\"' /var/lib/cloud/seed/nocloud/meta-data": `"role": "control-plane"`,
		"stat -c %a /etc/kops/identity.key":                                           "600",
		"ping -c1 -W2 10.199.2.1 >/dev/null && echo ok":                               "ok",
		"findmnt -n -o PROPAGATION /":                                                 "shared",
		"stat -f -c %T /var/lib/containerd | grep -c overlay":                         "0",
		"systemctl --failed --no-legend | wc -l":                                      "0",
	} {
		if got, err := l.inside(cluster, name, "sh", "-c", command); got != want {
			l.Errorf("in the machine, %s: %q (%v), not %q", command, got, err, want)
		}
	}
	h, err := l.Host(cluster)
	l.ok(err)
	limits := ""
	for _, dir := range h.Group(name).Dirs() {
		for _, file := range []string{"memory.limit_in_bytes", "memory.max"} { // of version 1 and 2
			data, _ := os.ReadFile(filepath.Join(dir, file)) // in one tree only
			limits += strings.TrimSpace(string(data))
		}
	}
	if limits != "536870912" {
		l.Errorf("the machine's memory is limited to %q", limits)
	}
	l.wait("the machine's log", func() error {
		log, err := h.Log(name)
		for _, want := range []string{name + " has 524288 kB", "user data: finished"} {
			if err == nil && !strings.Contains(string(log), want) {
				err = fmt.Errorf("it lacks %q:\n%s", want, log)
			}
		}
		return err
	})
}

// TestScaling: a group grows and shrinks, and removes machines of an older template first.
func TestScaling(t *testing.T) {
	const cluster = "scaling.k8s.local"
	l := newLab(t, cluster)
	lit := resource.Lit
	img, net := l.base(cluster, "10.199.4.0/24")
	want := MachineGroup{Cluster: cluster, Name: "nodes", Network: lit(net.ID), Image: lit(img.Path), Size: 1}
	group := build(l, &MachineGroups, want)
	old := l.running(cluster, "nodes")[0]
	change := func(do func(*MachineGroup)) {
		do(&want)
		l.ok(MachineGroups.Update[0].Set(l.Context(), l.Client, group, &want))
	}
	number := func(n int) func() error {
		return func() error {
			all, err := machinesIn(l.Client, cluster)
			if err == nil && len(all) != n {
				err = fmt.Errorf("%d machines", len(all))
			}
			return err
		}
	}
	change(func(g *MachineGroup) { g.Size, g.Labels = 2, map[string]string{"new": "yes"} })
	l.wait("two machines", number(2))
	change(func(g *MachineGroup) { g.Size = 1 })
	l.wait("one machine", number(1))
	if left := l.running(cluster, "nodes"); len(left) != 1 || left[0].Name == old.Name {
		t.Errorf("%v is left; %s was to go, which is of an older template", left, old.Name)
	}

	// The keeper is killed and restarted; then it is killed for good, and so is a machine
	// while no keeper runs.
	s := site.Site{Root: l.Root, Cluster: cluster}
	first, alive := keeper.Alive(s)
	if !alive {
		t.Fatal("the keeper does not run")
	}
	had := l.running(cluster, "nodes")
	l.ok(syscall.Kill(first, syscall.SIGKILL))
	l.wait("another process keeps the cluster", func() error {
		if pid, alive := keeper.Alive(s); !alive || pid == first {
			return fmt.Errorf("%d, %t", pid, alive)
		}
		return nil
	})
	if now := l.running(cluster, "nodes"); len(now) != 1 || now[0].Name != had[0].Name {
		t.Errorf("with the keeper went the machine %v: now there is %v", had, now)
	}
	h, err := machine.NewHost(s)
	l.ok(err)
	l.ok(h.Retire(t.Context(), h.KeeperUnit()))
	l.wait("all who keep the cluster are dead", func() error {
		pids := l.keepers(s)
		for _, pid := range pids {
			syscall.Kill(pid, syscall.SIGKILL) // it may have exited meanwhile
		}
		if len(pids) > 0 {
			return fmt.Errorf("%v", pids)
		}
		return nil
	})
	survivor := l.running(cluster, "nodes")
	if len(survivor) != 1 {
		t.Fatalf("with the keeper went the machines: %v", survivor)
	}
	l.killAll(cluster, survivor[0].Name)
	seen, err := Networks.List(l.Context(), l.Client, resource.Scope{Cluster: cluster})
	l.ok(err)
	if seen[0].Up {
		t.Error("the network is said to be up, without a keeper")
	}
	seen[0].Up = true
	l.ok(Networks.Update[0].Set(l.Context(), l.Client, seen[0], seen[0]))
	l.wait("the keeper replaces what died", func() error {
		now := l.running(cluster, "nodes")
		if len(now) != 1 || now[0].Name == survivor[0].Name {
			return fmt.Errorf("%v", now)
		}
		return nil
	})
	remove(l, &MachineGroups, group)
	remove(l, &Images, img)
	remove(l, &Networks, net)
	l.nothingLeft()
}

// keepers returns the processes that are the cluster's keeper or its standby.
func (l *lab) keepers(s site.Site) (pids []int) {
	l.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	l.ok(err)
	for _, file := range all {
		if line, err := os.ReadFile(file); err == nil && strings.Contains(string(line), "\x00"+keep+"\x00--root="+s.Root+"\x00") {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			l.ok(err)
			pids = append(pids, pid)
		}
	}
	return pids
}

const serve = `#!/bin/sh
set -e
mkdir -p /srv/www
cd /srv/www
hostname > name
echo ready > readyz
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem -out cert.pem -subj /CN=test -days 2 2>/dev/null
systemd-run --working-directory=/srv/www openssl s_server -HTTP -accept 443 -key key.pem -cert cert.pem
`

// TestLoadBalancing: connections go to the machines that report that they are ready.
func TestLoadBalancing(t *testing.T) {
	const cluster = "balancing.k8s.local"
	l := newLab(t, cluster)
	lit := resource.Lit
	img, net := l.base(cluster, "10.199.5.0/24")
	lb := build(l, &LoadBalancers, LoadBalancer{Cluster: cluster, Name: "api", Network: lit(net.ID), Groups: []string{"api"},
		Listeners: []Listener{{Port: 443, Target: 443, Check: "https://:443/readyz"}}})
	page := "HTTP/1.0 200 ok\\r\\nContent-Type: text/plain\\r\\n\\r\\n"
	script := strings.NewReplacer("hostname > name", `printf '`+page+`%s' "$(hostname)" > name`, "echo ready > readyz", `printf '`+page+`ready' > readyz`).Replace(serve)
	group := build(l, &MachineGroups, MachineGroup{Cluster: cluster, Name: "api", Network: lit(net.ID), Image: lit(img.Path), Size: 2,
		UserData: resource.Text(lit(script))})
	client := &http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // a test's own server
	ask := func() (string, error) {
		answer, err := client.Get("https://" + lb.Address + "/name")
		if err != nil {
			return "", err
		}
		defer answer.Body.Close()
		data, err := io.ReadAll(answer.Body)
		return string(data), err
	}
	answers := func(n int) func() error {
		return func() error {
			got := map[string]int{}
			for range 6 {
				name, err := ask()
				if err != nil {
					return err
				}
				got[name]++
			}
			if len(got) != n {
				return fmt.Errorf("%d answer: %v", len(got), got)
			}
			return nil
		}
	}
	l.wait("both machines answer", answers(2))
	first, second := l.running(cluster, "api")[0], l.running(cluster, "api")[1]
	_, err := l.inside(cluster, first.Name, "sed", "-i", "s/200 ok/500 no/", "/srv/www/readyz")
	l.ok(err)
	l.wait("the one that is not ready is left out", answers(1))
	_, err = l.inside(cluster, first.Name, "sed", "-i", "s/500 no/200 ok/", "/srv/www/readyz")
	l.ok(err)
	l.wait("both answer again", answers(2))
	l.killAll(cluster, second.Name)
	l.wait("all are answered although a machine was killed", func() error {
		for range 10 {
			if _, err := ask(); err != nil {
				return err
			}
		}
		return nil
	})
	l.wait("the replacement answers too", answers(2))
	l.ok(l.Deregister(t.Context(), cluster, first.Name))
	l.ok(answers(1)())
	if len(l.running(cluster, "api")) != 2 {
		t.Error("a machine that is deregistered is gone")
	}
	remove(l, &LoadBalancers, lb)
	remove(l, &MachineGroups, group)
	remove(l, &Images, img)
	remove(l, &Networks, net)
	l.nothingLeft()
}
