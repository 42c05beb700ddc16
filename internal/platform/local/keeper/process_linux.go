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

// Run runs the keeper, or its standby. It returns when ctx ends, on SIGTERM, or when the cluster's
// network is gone; SIGHUP makes it look at once. It writes its actions to out. command calls Run,
// to which --root and --cluster are added.
func Run(ctx context.Context, s site.Site, command []string, out io.Writer) error {
	if err := site.CheckName(s.Cluster); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	wake := make(chan os.Signal, 1)
	signal.Reset(syscall.SIGHUP) // which stops other commands of this program
	signal.Notify(wake, syscall.SIGHUP)
	defer signal.Stop(wake)
	log := slog.New(slog.NewTextHandler(out, nil))
	lock, err := become(ctx, s, log)
	if err != nil {
		return fmt.Errorf("keep the cluster %s: %w", s.Cluster, err)
	}
	defer lock.Close() // ends the lock
	if err := site.Write(pidFile(s), []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return err
	}
	host, err := machine.On(s)
	if err != nil {
		return err
	}
	k := newKeeper(host, log)
	if !host.Systemd { // which would start the keeper again by itself
		k.dismiss = accompany(ctx, s, slices.Concat(command, arguments(s)), log)
	}
	defer k.dismiss() // before the lock ends, which it waits for
	return k.loop(ctx, wake)
}

// Alive returns the number of the keeper's process, if it has one. The number in the file may
// belong to a dead keeper, and another process may have it by now.
func Alive(s site.Site) (pid int, alive bool) {
	if held, err := site.Locked(lockFile(s)); err != nil || !held {
		return 0, false
	}
	data, err := os.ReadFile(pidFile(s))
	if err != nil {
		return 0, false // it has just begun
	}
	pid, err = strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || !keeps(pid, s) {
		return 0, false
	}
	return pid, true
}

// keeps reports whether a process was started as the cluster's keeper.
func keeps(pid int, s site.Site) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return false
	}
	for _, want := range arguments(s) {
		byHand := strings.Replace(want, "=", "\x00", 1) // in two words, as a person may write it
		if !bytes.Contains(line, []byte("\x00"+want+"\x00")) && !bytes.Contains(line, []byte("\x00"+byHand+"\x00")) {
			return false
		}
	}
	return true
}

// arguments tell a keeper which cluster it keeps.
func arguments(s site.Site) []string { return []string{"--root=" + s.Root, "--cluster=" + s.Cluster} }

// Wake makes the keeper look at the wishes at once; without one it is too early.
func Wake(s site.Site) {
	if pid, alive := Alive(s); alive {
		_ = syscall.Kill(pid, syscall.SIGHUP) // it looks by itself within a second
	}
}

const (
	startTime = 30 * time.Second
	look      = 20 * time.Millisecond
)

// Start starts the keeper, unless it runs. command is the program and its first
// arguments; --root and --cluster follow.
func Start(ctx context.Context, s site.Site, command []string) error {
	if _, alive := Alive(s); alive {
		return nil
	}
	if len(command) == 0 {
		return errors.New("start the keeper: no command is known for it")
	}
	host, err := machine.On(s)
	if err != nil {
		return err
	}
	args := slices.Concat(command, arguments(s))
	if err := launch(ctx, host, args); err != nil {
		return fmt.Errorf("start the keeper of %s: %w", s.Cluster, err)
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		if _, alive := Alive(s); alive {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("start the keeper of %s: it did not come up; %s says: %s", s.Cluster, LogFile(s), tail(LogFile(s)))
		case <-time.After(look):
		}
	}
}

func launch(ctx context.Context, h machine.Host, args []string) error {
	log, err := os.OpenFile(LogFile(h.Site), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own
	if !h.Systemd {
		return machine.Detach(log, args)
	}
	// The machines that it starts are services of their own. One that ended may still be known.
	if err := h.Retire(ctx, h.KeeperUnit()); err != nil {
		return err
	}
	return h.Service(ctx, h.KeeperUnit(), Properties(LogFile(h.Site)), args)
}

// Properties are the properties of the keeper's service, if the host's systemd runs it: it is
// restarted at once whenever it fails, any number of times. log is a file.
func Properties(log string) []string {
	return []string{"Restart=on-failure", "RestartSec=100ms", "StartLimitIntervalSec=0", "StandardOutput=append:" + log, "StandardError=append:" + log}
}

// Stop ends the keeper, after its current action, and its standby, and removes their files.
func Stop(ctx context.Context, s site.Site) error {
	h, err := machine.On(s)
	if err != nil {
		return err
	}
	if err := h.Retire(ctx, h.KeeperUnit()); err != nil {
		return err
	}
	for {
		pid, alive := Alive(s)
		there, err := stands(s)
		if err != nil {
			return err
		}
		if !alive && !there {
			break
		}
		if alive {
			_ = syscall.Kill(pid, syscall.SIGTERM) // it may have ended meanwhile
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("stop the keeper of %s, process %d: %w", s.Cluster, pid, context.Cause(ctx))
		case <-time.After(look):
		}
	}
	return removeFiles(s)
}

// tail is the end of a file, on one line.
func tail(file string) string {
	data, err := os.ReadFile(file)
	if err != nil || len(bytes.TrimSpace(data)) == 0 {
		return "nothing"
	}
	data = bytes.TrimSpace(data[max(0, len(data)-600):])
	return strings.ReplaceAll(string(data), "\n", "; ")
}
