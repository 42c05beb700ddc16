package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"kops.local/kops/internal/platform/local/cgroup"
	"kops.local/kops/internal/platform/local/site"
	"kops.local/kops/internal/template"
)

// Files of a machine's folder.
const (
	consoleFile = "console.log"
	runFile     = "run"
)

// consoleBytes is how much of what a machine writes on its console is kept.
const consoleBytes = 16 << 20

// start runs the machine, as a service of the host's systemd or detached.
func (h Host) start(ctx context.Context, dir string, s Spec, mem memory) error {
	script, err := h.script(dir, s)
	if err != nil {
		return err
	}
	run := filepath.Join(dir, runFile)
	if err := site.Write(run, script, 0o700); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(dir, consoleFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the machine has its own
	args := []string{"unshare", "--mount", "--propagation", "private", "sh", run}
	if h.Systemd {
		err := h.limitSlice(ctx, mem.all)
		if err == nil {
			err = h.Service(ctx, h.unit(s.Name), properties(s, mem), args)
		}
		if err != nil {
			return err
		}
		return h.started(ctx, s.Name)
	}
	if err := (cgroup.Group{Trees: h.Trees, Path: commonGroup}).Make(cgroup.Limits{MemoryBytes: int64(mem.all) << 20}); err != nil {
		return err
	}
	if err := h.Group(s.Name).Make(cgroup.Limits{MemoryBytes: int64(mem.of(s)) << 20, CPUs: s.CPUs}); err != nil {
		return err
	}
	if err := Detach(log, args); err != nil {
		return err
	}
	return h.started(ctx, s.Name)
}

// startTime is how long a machine's first process may take to be in its control group.
const startTime = 30 * time.Second

// started waits until the machine is seen to run: before that it would be taken for dead.
func (h Host) started(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		runs, err := h.Group(name).Populated()
		if err != nil || runs {
			return err
		}
		select {
		case <-ctx.Done():
			log, _ := h.Log(name) // without it the error says less
			return fmt.Errorf("it did not start: %s", bytes.TrimSpace(log))
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// properties returns the properties of a machine's service.
func properties(s Spec, mem memory) []string {
	out := append([]string{"Delegate=yes", "KillMode=mixed", "TasksMax=infinity", "LimitNOFILE=1048576"}, memoryProperties(mem.of(s))...)
	if s.CPUs > 0 {
		out = append(out, fmt.Sprintf("CPUQuota=%d%%", s.CPUs*100))
	}
	return out
}

// memoryProperties returns the properties of a unit with a memory limit, which swap does not
// widen.
func memoryProperties(mib int) []string {
	return []string{fmt.Sprintf("MemoryMax=%dM", mib), "MemorySwapMax=0"}
}

// script is what runs a machine: it goes into the machine's control groups, mounts its
// disk and its root, and starts it again whenever its inside asks for a restart.
func (h Host) script(dir string, s Spec) ([]byte, error) {
	g := h.Group(s.Name)
	data := struct {
		Name, Dir, Disk, Overlay string
		Folders                  []string // of the disk
		Console                  int
		Groups                   []string
		Unified                  string
		Nspawn                   []string
	}{Name: s.Name, Dir: dir, Disk: diskOptions, Console: consoleBytes, Nspawn: h.nspawn(dir, s),
		Overlay: fmt.Sprintf("lowerdir=%[1]s/%[2]s:%[3]s,upperdir=%[1]s/%[4]s/upper,workdir=%[1]s/%[4]s/work", dir, seedFolder, s.Image, diskMount)}
	for _, d := range append([]string{"upper", "work"}, disks()...) {
		data.Folders = append(data.Folders, diskDir(dir, d))
	}
	for i, t := range g.Trees {
		if cgroup.Pure(g.Trees) {
			data.Unified = g.Dirs()[i]
		} else if t.Dir != "" {
			data.Groups = append(data.Groups, g.Dirs()[i])
		}
	}
	t, err := template.Parse("run", runScript, template.Funcs{"sh": quote})
	if err != nil {
		return nil, err
	}
	text, err := t.Execute(data)
	return []byte(text), err
}

const runScript = `#!/bin/sh
# Runs the machine {{ .Name }}; made by kops.
set -eu
cd {{ sh .Dir }}
exec >> console.log 2>&1 < /dev/null
{{- range .Groups }}
echo 0 > {{ sh . }}/cgroup.procs
{{- end }}
{{- with .Unified }}
# In version 2 a group has processes or groups with limits, never both: this
# script stays in one group, and each start of the machine has another.
group={{ sh . }}
mkdir -p "$group/launch"
echo 0 > "$group/launch/cgroup.procs"
for c in $(cat "$group/cgroup.controllers"); do echo "+$c" > "$group/cgroup.subtree_control"; done
{{- end }}
mount -o {{ .Disk }} disk.img disk
mkdir -p{{ range .Folders }} {{ sh . }}{{ end }}
mount -t overlay overlay -o {{ sh .Overlay }} root
mount -t tmpfs -o mode=755 tmpfs /run # what systemd-nspawn leaves there goes with it
mkdir -p /run/systemd
# The console goes to the host's disk, which it must not fill: the rest is dropped.
mkfifo console
{ dd bs=64k iflag=count_bytes count={{ .Console }} status=none; exec cat > /dev/null; } < console &
exec > console 2>&1
n=0
while :; do
  n=$((n+1))
  [ "$n" -lt 4 ] || sleep 1 # it may ask again and again
  echo "kops: start $n of the machine at $(date -u +%FT%TZ)"
  status=0
  (
{{- if .Unified }}
    mkdir -p "$group/start-$n"
    echo 0 > "$group/start-$n/cgroup.procs"
{{- end }}
    export SYSTEMD_NSPAWN_API_VFS_WRITABLE=1
    exec{{ range .Nspawn }} {{ sh . }}{{ end }}
  ) || status=$?
  # A machine that starts again has no groups of before: kubelet would ask for the containers of each, some seconds long.
{{- range .Groups }}
  find {{ sh . }} -mindepth 1 -depth -type d -exec rmdir {} + || : # what is in use stays
{{- end }}
{{- if .Unified }}
  find "$group/start-$n" -depth -type d -exec rmdir {} + || : # what is in use stays
{{- end }}
  [ "$status" = 133 ] || break # 133: the inside asked for a restart
done
echo "kops: the machine ended with status $status"
exit "$status"
`

func (h Host) nspawn(dir string, s Spec) []string {
	out := []string{"systemd-nspawn", "--quiet", "--directory=" + filepath.Join(dir, "root"), "--boot",
		"--machine=" + h.shortName(s.Address.Addr()), "--hostname=" + s.Name,
		"--register=no", "--keep-unit", "--network-bridge=" + h.Bridge(),
		"--resolv-conf=off", "--timezone=off", "--link-journal=no", "--console=read-only", "--setenv=TERM=dumb",
		// Rights that root has on a kernel of its own, and that kubelet and runc need.
		"--capability=all", "--system-call-filter=add_key keyctl bpf perf_event_open",
		"--kill-signal=SIGRTMIN+3", "--bind=/dev/kmsg"}
	if _, err := os.Stat("/lib/modules"); err == nil {
		out = append(out, "--bind-ro=/lib/modules")
	}
	for _, d := range disks() {
		out = append(out, "--bind="+diskDir(dir, d)+":"+d)
	}
	for _, f := range s.Folders {
		how := "--bind="
		if f.ReadOnly {
			how = "--bind-ro="
		}
		out = append(out, how+f.Host+":"+f.Path)
	}
	return out
}

// shortName names the machine to the kernel, where the interface, "vb-" and this
// name, may have 15 letters: the cluster's mark and the end of the address.
func (h Host) shortName(a netip.Addr) string {
	b := a.As4()
	return fmt.Sprintf("k%s%02x%02x", h.ID(), b[2], b[3])
}

// link is the machine's interface on the host, as systemd-nspawn names it.
func (h Host) link(a netip.Addr) string { return "vb-" + h.shortName(a) }

// quote writes a word for the shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// Inside runs a command inside a running machine and returns what it wrote.
func (h Host) Inside(ctx context.Context, name string, command ...string) ([]byte, error) {
	pid, err := h.init(name)
	if err != nil {
		return nil, err
	}
	// A shell waits for the command, and not nsenter, which stops itself when its child is
	// stopped: the end of a machine stops and kills all that runs in it, and then waits
	// until each is reaped.
	args := append([]string{"--target", strconv.Itoa(pid), "--mount", "--uts", "--ipc", "--net", "--pid", "--no-fork", "--cgroup", "--root", "--wd", "--",
		"sh", "-c", `"$@"; exit $?`, "sh"}, command...)
	out, err := exec.CommandContext(ctx, "nsenter", args...).CombinedOutput()
	if err != nil {
		return out, fmt.Errorf("run %q in the machine %s: %w: %s", command, name, err, bytes.TrimSpace(out))
	}
	return out, nil
}

// init finds the process that is number 1 inside the machine.
func (h Host) init(name string) (int, error) {
	pids, err := h.Group(name).Processes()
	if err != nil {
		return 0, err
	}
	for _, pid := range pids {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			continue // it ended
		}
		for line := range strings.Lines(string(status)) {
			if w := strings.Fields(line); len(w) == 3 && w[0] == "NSpid:" && w[2] == "1" {
				return pid, nil
			}
		}
	}
	return 0, fmt.Errorf("run a command in the machine %s: %w", name, errNotRunning)
}

var errNotRunning = errors.New("it is not running")
