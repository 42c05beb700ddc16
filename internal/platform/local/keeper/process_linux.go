package keeper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"kops.local/kops/internal/platform/local/machine"
	"kops.local/kops/internal/platform/local/site"
)

// Run runs the keeper, or its standby. It returns when ctx is done, on SIGTERM, or when the
// cluster's network is gone; SIGHUP makes it check the cluster at once. It logs its actions to out.
// command is a command that calls Run; --root and --cluster are added to it.
func Run(ctx context.Context, s site.Site, command []string, out io.Writer) error {
	if err := site.CheckName(s.Cluster); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	wake := make(chan os.Signal, 1)
	signal.Reset(syscall.SIGHUP) // it stops other commands of this program
	signal.Notify(wake, syscall.SIGHUP)
	defer signal.Stop(wake)
	log := slog.New(slog.NewTextHandler(out, nil))
	lock, err := acquireLock(ctx, s, log)
	if err != nil {
		return fmt.Errorf("keep the cluster %s: %w", s.Cluster, err)
	}
	defer lock.Close() // releases the lock
	if err := site.Write(pidFile(s), []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return err
	}
	host, err := machine.NewHost(s)
	if err != nil {
		return err
	}
	k := newKeeper(host, log)
	if !host.Systemd { // it would restart the keeper itself
		k.stopStandby = ensureStandby(ctx, s, slices.Concat(command, arguments(s)), log)
	}
	defer k.stopStandby() // before the lock that it waits for is released
	return k.loop(ctx, wake)
}

// Alive returns the PID of the keeper's process, if there is one. The PID in the file may be
// that of a dead keeper, and may have been reused by another process.
func Alive(s site.Site) (pid int, alive bool) {
	if held, err := site.Locked(lockFile(s)); err != nil || !held {
		return 0, false
	}
	data, err := os.ReadFile(pidFile(s))
	if err != nil {
		return 0, false // it has just started
	}
	pid, err = strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || !isKeeper(pid, s) {
		return 0, false
	}
	return pid, true
}

// isKeeper reports whether a process was started as the cluster's keeper.
func isKeeper(pid int, s site.Site) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return false
	}
	for _, want := range arguments(s) {
		byHand := strings.Replace(want, "=", "\x00", 1) // as two arguments, as a person may write them
		if !bytes.Contains(line, []byte("\x00"+want+"\x00")) && !bytes.Contains(line, []byte("\x00"+byHand+"\x00")) {
			return false
		}
	}
	return true
}

// arguments returns the arguments that tell a keeper its cluster.
func arguments(s site.Site) []string { return []string{"--root=" + s.Root, "--cluster=" + s.Cluster} }

// Wake makes the keeper check the desired state at once. If there is no keeper yet,
// it does nothing.
func Wake(s site.Site) {
	if pid, alive := Alive(s); alive {
		_ = syscall.Kill(pid, syscall.SIGHUP) // otherwise it checks by itself within a second
	}
}

const (
	startTime  = 30 * time.Second
	pollPeriod = 20 * time.Millisecond
)

// Start starts the keeper, unless it is running. command is the program and its first
// arguments; --root and --cluster are added.
func Start(ctx context.Context, s site.Site, command []string) error {
	if _, alive := Alive(s); alive {
		return nil
	}
	if len(command) == 0 {
		return errors.New("start the process that runs the machines: its command is not known")
	}
	host, err := machine.NewHost(s)
	if err != nil {
		return err
	}
	args := slices.Concat(command, arguments(s))
	if err := launch(ctx, host, args); err != nil {
		return fmt.Errorf("start the process that runs the machines of %s: %w", s.Cluster, err)
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		if _, alive := Alive(s); alive {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("start the process that runs the machines of %s: it did not come up; %s says: %s", s.Cluster, LogFile(s), tail(LogFile(s)))
		case <-time.After(pollPeriod):
		}
	}
}

func launch(ctx context.Context, h machine.Host, args []string) error {
	log, err := os.OpenFile(LogFile(h.Site), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own copy
	if !h.Systemd {
		return machine.Detach(log, args)
	}
	// The machines that it starts are services of their own. systemd may still know a keeper
	// that exited.
	if err := h.Retire(ctx, h.KeeperUnit()); err != nil {
		return err
	}
	return h.Service(ctx, h.KeeperUnit(), Properties(LogFile(h.Site)), args)
}

// Properties returns the properties of the keeper's service, if the host's systemd runs it: it
// is restarted at once whenever it fails, any number of times. log is a file.
func Properties(log string) []string {
	return []string{"Restart=on-failure", "RestartSec=100ms", "StartLimitIntervalSec=0", "StandardOutput=append:" + log, "StandardError=append:" + log}
}

// Stop stops the keeper, after its current action, and its standby, and removes their files.
func Stop(ctx context.Context, s site.Site) error {
	h, err := machine.NewHost(s)
	if err != nil {
		return err
	}
	if err := h.Retire(ctx, h.KeeperUnit()); err != nil {
		return err
	}
	for {
		pid, alive := Alive(s)
		running, err := isRunning(s)
		if err != nil {
			return err
		}
		if !alive && !running {
			break
		}
		if alive {
			_ = syscall.Kill(pid, syscall.SIGTERM) // it may have exited meanwhile
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("stop the process %[2]d that runs the machines of %[1]s: %[3]w", s.Cluster, pid, context.Cause(ctx))
		case <-time.After(pollPeriod):
		}
	}
	return removeFiles(s)
}

// tail returns the end of a file, on one line.
func tail(file string) string {
	data, err := os.ReadFile(file)
	if err != nil || len(bytes.TrimSpace(data)) == 0 {
		return "nothing"
	}
	data = bytes.TrimSpace(data[max(0, len(data)-600):])
	return strings.ReplaceAll(string(data), "\n", "; ")
}
