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

// bpfMount is, in a machine's folder, where its own bpffs is mounted: only the machine sees it.
const bpfMount = "bpf"

// consoleBytes is how much of a machine's console output is kept.
const consoleBytes = 16 << 20

// start starts the machine, as a service of the host's systemd or detached.
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
	defer log.Close() // the machine has its own copy
	args := []string{"unshare", "--mount", "--propagation", "private", "sh", run}
	if h.Systemd {
		err := h.limitSlice(ctx, mem.total)
		if err == nil {
			err = h.Service(ctx, h.unit(s.Name), properties(s, mem), args)
		}
		if err != nil {
			return err
		}
		return h.waitUntilRunning(ctx, s.Name)
	}
	if err := (cgroup.Group{Trees: h.Trees, Path: commonGroup}).Create(cgroup.Limits{MemoryBytes: int64(mem.total) << 20}); err != nil {
		return err
	}
	if err := h.Group(s.Name).Create(cgroup.Limits{MemoryBytes: int64(mem.limitFor(s)) << 20, CPUs: s.CPUs}); err != nil {
		return err
	}
	if err := Detach(log, args); err != nil {
		return err
	}
	return h.waitUntilRunning(ctx, s.Name)
}

// startTime is how long a machine's first process may take to enter its control group.
const startTime = 30 * time.Second

// waitUntilRunning waits until the machine is seen running: before that it would be taken for dead.
func (h Host) waitUntilRunning(ctx context.Context, name string) error {
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
	out := append([]string{"Delegate=yes", "KillMode=mixed", "TasksMax=infinity", "LimitNOFILE=1048576"}, memoryProperties(mem.limitFor(s))...)
	if s.CPUs > 0 {
		out = append(out, fmt.Sprintf("CPUQuota=%d%%", s.CPUs*100))
	}
	return out
}

// memoryProperties returns the properties of a unit with a memory limit that swap does not extend.
func memoryProperties(mib int) []string {
	return []string{fmt.Sprintf("MemoryMax=%dM", mib), "MemorySwapMax=0"}
}

// script returns the script that runs a machine: it enters the machine's control groups, mounts its
// disk and its root, and starts it again whenever a restart is requested from inside.
func (h Host) script(dir string, s Spec) ([]byte, error) {
	g := h.Group(s.Name)
	data := struct {
		Name, Dir, Disk, Overlay string
		BPF                      string   // where the machine's own file system of the kernel's programs is mounted
		Folders                  []string // on the disk
		Console                  int
		Groups                   []string
		Unified                  string
		Nspawn                   []string
	}{Name: s.Name, Dir: dir, Disk: diskOptions, BPF: filepath.Join(dir, bpfMount), Console: consoleBytes, Nspawn: h.nspawn(dir, s),
		Overlay: fmt.Sprintf("lowerdir=%[1]s/%[2]s:%[3]s,upperdir=%[1]s/%[4]s/upper,workdir=%[1]s/%[4]s/work", dir, seedFolder, s.Image, diskMount)}
	for _, d := range append([]string{"upper", "work"}, diskFolders()...) {
		data.Folders = append(data.Folders, diskDir(dir, d))
	}
	for i, t := range g.Trees {
		if cgroup.IsUnified(g.Trees) {
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
    # Programs and tables that pod networks load into the kernel live there, and end with the boot.
    mkdir -p {{ sh .BPF }}
    while umount {{ sh .BPF }} 2>/dev/null; do :; done
    mount -t bpf bpf {{ sh .BPF }}
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
		// Capabilities and system calls that root has on a kernel of its own, and that
		// kubelet and runc need.
		"--capability=all", "--system-call-filter=add_key keyctl bpf perf_event_open",
		"--kill-signal=SIGRTMIN+3", "--bind=/dev/kmsg", "--bind=" + filepath.Join(dir, bpfMount) + ":/sys/fs/bpf"}
	if _, err := os.Stat("/lib/modules"); err == nil {
		out = append(out, "--bind-ro=/lib/modules")
	}
	for _, d := range diskFolders() {
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

// shortName returns the machine's name for the kernel: the cluster's ID and the end
// of the address. The interface, "vb-" and this name, may have 15 characters.
func (h Host) shortName(a netip.Addr) string {
	b := a.As4()
	return fmt.Sprintf("k%s%02x%02x", h.ID(), b[2], b[3])
}

// Link returns the name of the interface on the host of the machine with an address, as systemd-nspawn names it.
func (h Host) Link(a netip.Addr) string { return "vb-" + h.shortName(a) }

// quote quotes a word for the shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// RunInside runs a command inside a running machine and returns its output.
func (h Host) RunInside(ctx context.Context, name string, command ...string) ([]byte, error) {
	pid, err := h.init(name)
	if err != nil {
		return nil, err
	}
	// A shell waits for the command, and not nsenter, which stops itself when its child is
	// stopped: when a machine ends, everything in it is stopped and killed, and then each
	// process must be reaped.
	args := append([]string{"--target", strconv.Itoa(pid), "--mount", "--uts", "--ipc", "--net", "--pid", "--no-fork", "--cgroup", "--root", "--wd", "--",
		"sh", "-c", `"$@"; exit $?`, "sh"}, command...)
	out, err := exec.CommandContext(ctx, "nsenter", args...).CombinedOutput()
	if err != nil {
		return out, fmt.Errorf("run %q in the machine %s: %w: %s", command, name, err, bytes.TrimSpace(out))
	}
	return out, nil
}

// init returns the PID, on the host, of the machine's process 1.
func (h Host) init(name string) (int, error) {
	pids, err := h.Group(name).Processes()
	if err != nil {
		return 0, err
	}
	for _, pid := range pids {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			continue // it exited
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
