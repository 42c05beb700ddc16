package member

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd"
)

const (
	// firstPause is the wait before etcd is restarted after it exited; it doubles each
	// time up to lastPause, and is reset after etcd ran for steady.
	firstPause, lastPause, steady = 250 * time.Millisecond, 30 * time.Second, time.Minute
	// watchPause is how often the data of a running etcd are checked.
	watchPause = 500 * time.Millisecond
	// snapshotTime is how long etcd may take to start and to make a snapshot of its log.
	snapshotTime = time.Minute
)

// runner keeps etcd running until it is canceled.
type runner struct {
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when etcd has stopped for good
}

// errKill is the cause to cancel a runner with if etcd need not stop gracefully.
var errKill = errors.New("etcd is no longer needed")

func (m *Member) isRunning() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.runner != nil
}

// launch starts the runner for the stored state, with additional environment variables. The
// order lock is held, or the member is not yet shared.
func (m *Member) launch(environment ...string) error {
	k := m.current()
	if err := m.writeCertificates(k.Token, func(string, string) bool { return true }); err != nil {
		return err
	}
	program := m.cfg.Programs.find(k.Version, "etcd")
	if program == "" {
		return fault.New(fault.Permanent, "there is no etcd version %s in %s", k.Version, m.cfg.Programs)
	}
	if err := os.MkdirAll(filepath.Dir(m.data.data(k.Token)), 0o700); err != nil {
		return fmt.Errorf("create the folder of etcd's data: %w", err)
	}
	ctx, cancel := context.WithCancelCause(context.Background()) // its lifetime is the member's, not an order's
	r := &runner{cancel, make(chan struct{})}
	m.mu.Lock()
	m.runner = r
	m.mu.Unlock()
	go func() {
		defer close(r.done)
		m.supervise(ctx, program, append(m.cfg.environment(k, m.data), environment...))
	}()
	return nil
}

// halt stops etcd and waits until it has exited. errKill, for an etcd that clients
// no longer use, kills it, which does not harm its data: a leader that stops
// gracefully waits up to seven seconds for another to take over, and if all are
// being stopped, none does.
func (m *Member) halt(cause error) {
	m.mu.Lock()
	r := m.runner
	m.runner = nil
	m.mu.Unlock()
	if r != nil {
		r.cancel(cause)
		<-r.done
	}
}

// snapshot ensures that a snapshot of etcd's log up to an index exists before another
// version starts with it: etcd 3.7 exits at an entry that 3.5 has logged. By itself etcd
// makes a snapshot only after thousands of entries.
func (m *Member) snapshot(ctx context.Context, version string, index uint64) error {
	k := m.current()
	if k.Version == version || index == 0 || !m.isRunning() {
		return nil
	}
	reached, err := snapshotOf(m.data.data(k.Token))
	if err != nil || reached >= index {
		return err
	}
	m.cfg.Log.Info("etcd takes a snapshot of its log", "from", reached, "to", index, "before", version)
	m.halt(nil)
	err = m.launch("ETCD_SNAPSHOT_COUNT=1")
	ctx, cancel := context.WithTimeout(ctx, snapshotTime)
	defer cancel()
	watch := time.NewTicker(watchPause)
	defer watch.Stop()
	for err == nil && reached < index {
		select {
		case <-ctx.Done():
			err = fmt.Errorf("etcd %s has a snapshot of its log as far as %d, not %d: %w", k.Version, reached, index, ctx.Err())
		case <-watch.C:
			reached, err = snapshotOf(m.data.data(k.Token))
		}
	}
	if err != nil {
		m.halt(nil)
		err = errors.Join(err, m.launch())
	}
	return err
}

// supervise starts etcd, and restarts it whenever it exits, until it is stopped or the data are
// gone. It keeps its thread, because etcd gets a signal when the thread that started it ends (see
// command).
func (m *Member) supervise(ctx context.Context, program string, environment []string) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for pause := firstPause; ctx.Err() == nil; {
		start := time.Now()
		err := m.runOnce(ctx, program, environment)
		switch {
		case errors.Is(err, errLost):
			m.giveUpSeat()
			return
		case ctx.Err() != nil:
			return
		case time.Since(start) > steady:
			pause = firstPause
		}
		m.cfg.Log.Warn("etcd stopped; restarting it", "after", time.Since(start).Round(time.Millisecond), "pause", pause, "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, lastPause)
	}
}

// errLost means that the data of etcd are gone.
var errLost = errors.New("the data of etcd are gone")

// runOnce runs etcd until it exits, is stopped, or loses its data.
func (m *Member) runOnce(ctx context.Context, program string, environment []string) error {
	if err := m.noteStart(); err != nil {
		return err
	}
	cmd := command(program)
	cmd.Env = environment
	cmd.Stdout, cmd.Stderr = m.cfg.Output, m.cfg.Output
	cmd.WaitDelay = time.Second // for the part of its log that is still to be copied
	begun := m.data.hasData(m.current().Token)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start etcd: %w", err)
	}
	if err := writePID(m.data.pidFile(), cmd.Process.Pid); err != nil {
		m.cfg.Log.Warn("cannot record the process of etcd", "error", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	watch := time.NewTicker(watchPause)
	defer watch.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errKill) {
				return kill(cmd, ended)
			}
			return m.end(cmd, ended)
		case <-watch.C:
			there := m.data.hasData(m.current().Token)
			if begun && !there {
				return errors.Join(errLost, kill(cmd, ended))
			}
			begun = there
		}
	}
}

// end asks etcd to exit, and kills it if it does not.
func (m *Member) end(cmd *exec.Cmd, ended chan error) error {
	sendTerminate(cmd.Process) // if that fails, the kill follows
	select {
	case <-ended: //nolint:errcheck // the exit status of a process that was told to exit does not matter
		return nil
	case <-time.After(m.cfg.Grace):
		m.cfg.Log.Warn("etcd did not stop in time; killing it", "grace", m.cfg.Grace)
		return kill(cmd, ended)
	}
}

func kill(cmd *exec.Cmd, ended chan error) error {
	if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill etcd: %w", err)
	}
	<-ended //nolint:errcheck // it was killed
	return nil
}

// noteStart records, before etcd is started for the first time, that missing data
// are a loss from now on: an etcd that has talked to others must not come back
// without data. One that exited before it wrote anything counts as lost, too.
func (m *Member) noteStart() error {
	k := m.current()
	if m.data.isLost(k) {
		return errLost
	}
	if k.Started {
		return nil
	}
	k.Started = true
	return m.saveState(k)
}

// giveUpSeat gives up a seat whose data are gone. The member must never come back without data.
func (m *Member) giveUpSeat() {
	m.cfg.Log.Warn("the data of etcd are gone; giving up the seat")
	if err := m.saveState(storedState{}); err != nil {
		m.cfg.Log.Error("cannot record the loss of the data", "error", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.runner = nil
}

// unpack restores a backup into the data of a founder. The revision is raised above all served ones
// (see etcd.RevisionIncrease), and all revisions before it are marked as compacted, so that
// watchers of the lost cluster notice that they must read again (etcd's guide "Disaster recovery").
func (m *Member) unpack(ctx context.Context, o etcd.Run) error {
	program := m.cfg.Programs.restorer(o.Version)
	if program == "" {
		return fault.New(fault.Permanent, "neither etcdutl nor etcdctl of version %s is in %s", o.Version, m.cfg.Programs)
	}
	snapshot := filepath.Join(m.cfg.Dir, "restore.db")
	defer os.Remove(snapshot) // overwritten by the next one, if this fails
	revision, err := m.cfg.Fetch(ctx, o.Backup, snapshot)
	if err != nil {
		return err
	}
	data := m.data.data(o.Token)
	if err := os.MkdirAll(filepath.Dir(data), 0o700); err != nil {
		return err
	}
	args := []string{"snapshot", "restore", snapshot, "--data-dir", data, "--name", m.cfg.ID, "--initial-cluster-token", o.Token,
		"--initial-cluster", initialCluster(o.Initial), "--initial-advertise-peer-urls", strings.Join(m.cfg.PeerURLs, ",")}
	help, err := exec.CommandContext(ctx, program, "snapshot", "restore", "--help").CombinedOutput()
	if err != nil {
		return fmt.Errorf("query the commands of %s: %w", program, err)
	}
	if strings.Contains(string(help), "--bump-revision") {
		args = append(args, "--bump-revision", strconv.FormatInt(etcd.RevisionIncrease(revision, o.Served), 10), "--mark-compacted")
	}
	restore := exec.CommandContext(ctx, program, args...)
	bind(restore) // if it outlived this process, it would write into the data of the next attempt
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if out, err := restore.CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("restore the backup %s: %w: %s", o.Backup, err, lastLine(out)), os.RemoveAll(data))
	}
	return nil
}

func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}
