// Package member runs the etcd of one member: its folder, its certificates, its process, and the
// unpacking of a backup into it.
//
// Its folder has the layout of kOps' etcd-manager: each program continues with the data that the
// other has left.
//
// It must not know other peers or the cluster's spec: it carries out orders, and refuses to begin
// new data unless the order allows it.
package member

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/node/etcd/certs"
)

// Config defines the member's identity and where its files are.
type Config struct {
	// Dir is the folder with everything of the member, usually the root of its own disk.
	Dir string
	// ID is the name of the peer and of the member.
	ID string
	// Address is the machine's own address, which certificates contain.
	Address string
	// Listen is the address that etcd listens on, such as 0.0.0.0.
	Listen string
	// PeerURLs, ClientURLs and QuarantineURLs are where others reach etcd. If they use
	// http, etcd uses no TLS.
	PeerURLs, ClientURLs, QuarantineURLs []string
	Programs                             Programs
	// Authorities may be nil if every URL uses http.
	Authorities *certs.Authorities
	// Environment are further variables (NAME=value) for etcd; they override ours.
	Environment []string
	// Output receives etcd's own log.
	Output io.Writer
	Log    *slog.Logger
	// Fetch writes the snapshot of a backup, decompressed and verified, to a file, and
	// returns its revision.
	Fetch func(ctx context.Context, backup, file string) (revision int64, err error)
	// RestartReaders restarts the programs of this machine that have read from etcd. It is called when
	// etcd has stopped and its data are about to be replaced by a restored cluster's; they are
	// not replaced if it fails. nil if there are no such programs.
	RestartReaders func(ctx context.Context) error
	// Grace is how long etcd may take to stop before it is killed; 0 means 10 seconds.
	Grace time.Duration
}

// Member is the etcd of this machine. Its methods may be called concurrently.
type Member struct {
	cfg  Config
	data folder
	lock *os.File

	orders sync.Mutex // held while an order is carried out
	mu     sync.Mutex // guards the following fields
	stored storedState
	runner *runner
}

// Open locks the member's folder, and stops an etcd that an earlier manager left
// behind. It does not start etcd; see Resume. A folder that another manager holds
// is an error of class fault.Conflict.
func Open(cfg Config) (*Member, error) {
	if cfg.Grace == 0 {
		cfg.Grace = 10 * time.Second
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	m := &Member{cfg: cfg, data: folder(cfg.Dir)}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the folder of etcd: %w", err)
	}
	lock, err := lockFile(filepath.Join(cfg.Dir, "lock"))
	if err != nil {
		return nil, fmt.Errorf("open the folder of etcd %s: %w", cfg.Dir, err)
	}
	m.lock = lock
	if err := m.takeOver(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return m, nil
}

// takeOver reads what the last manager of the folder left. If the version of its etcd is
// no longer available, the data continue with another patch release of the same minor
// version.
func (m *Member) takeOver() error {
	before, theirs, err := m.data.load()
	if err != nil {
		return err
	}
	k := before
	if theirs != nil {
		if k, err = m.adopt(before, theirs); err != nil {
			return err
		}
	}
	if err := endLeftover(m.data.pidFile(), m.cfg.Grace); err != nil {
		return fmt.Errorf("stop the etcd of an earlier manager: %w", err)
	}
	if k.Token != "" && m.data.isLost(k) {
		m.cfg.Log.Warn("the data of etcd are gone", "token", k.Token, "seat", k.Seat)
		k = storedState{}
	}
	if v := m.cfg.Programs.serve(k.Version); v != k.Version {
		m.cfg.Log.Info("etcd continues with another patch version", "from", k.Version, "to", v)
		k.Version = v
	}
	if k.Token != "" && k.cluster == nil {
		k.cluster = m.cfg.describe(k)
	}
	if theirs == nil && !k.sameAs(before) {
		return m.saveState(k)
	}
	m.stored = k // their file has the same content, and is not changed before an order changes something
	return nil
}

// Resume runs etcd if it was running when the last manager of the folder stopped.
func (m *Member) Resume(context.Context) error {
	m.orders.Lock()
	defer m.orders.Unlock()
	if k := m.current(); k.Token == "" || k.Stopped || m.isRunning() {
		return nil
	}
	return m.launch()
}

// State returns what the disk contains and how etcd is run. If the data of a
// running etcd have vanished, they count as missing, and etcd is stopped.
func (m *Member) State() etcd.State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stored.State
}

// Run carries out an order. It returns when etcd is started, not when it answers.
func (m *Member) Run(ctx context.Context, o etcd.Run) error {
	m.orders.Lock()
	defer m.orders.Unlock()
	now := m.State()
	if now.Token != o.Token || now.Seat != o.Seat {
		if !o.Fresh {
			return fault.New(fault.Conflict, "run etcd: the data of seat %s of cluster %s are not on this machine", o.Seat, o.Token)
		}
		if err := m.begin(ctx, o); err != nil {
			return fmt.Errorf("begin the data of seat %s of cluster %s: %w", o.Seat, o.Token, err)
		}
	}
	if err := m.configure(ctx, o); err != nil {
		return fmt.Errorf("run etcd %s: %w", o.Version, err)
	}
	return nil
}

// Stop stops etcd; it is not run again, even by a later manager, until an order requests it.
func (m *Member) Stop(context.Context) error {
	m.orders.Lock()
	defer m.orders.Unlock()
	m.halt(errKill)
	k := m.current()
	if k.Token == "" || k.Stopped {
		return nil
	}
	k.Stopped = true
	return m.saveState(k)
}

// Close stops etcd gracefully and unlocks the folder. After a later Open, Resume runs etcd again.
func (m *Member) Close() error {
	m.orders.Lock()
	defer m.orders.Unlock()
	m.halt(nil)
	return m.lock.Close()
}

// RenewCertificates reissues etcd's certificates when half of their validity is over. A running
// etcd reads them at the next connection. It does not wait for an order in progress, which may
// take long: the certificates will still be due at the next call.
func (m *Member) RenewCertificates() error {
	if !m.orders.TryLock() {
		return nil
	}
	defer m.orders.Unlock()
	if k := m.current(); k.Token != "" {
		return m.writeCertificates(k.Token, m.cfg.Authorities.Due)
	}
	return nil
}

// begin moves the disk's data aside, and prepares the data of another seat.
func (m *Member) begin(ctx context.Context, o etcd.Run) error {
	m.halt(errKill)
	before := m.current()
	if err := m.saveState(storedState{}); err != nil {
		return err
	}
	if err := m.data.putAside(before); err != nil {
		return err
	}
	if o.Restored && m.cfg.RestartReaders != nil {
		if err := m.cfg.RestartReaders(ctx); err != nil {
			return err
		}
	}
	k := storedState{State: etcd.State{Token: o.Token, Seat: o.Seat, Version: o.Version, Quarantined: o.Quarantined, Stopped: true}, Initial: o.Initial}
	if o.Backup != "" {
		if err := m.unpack(ctx, o); err != nil {
			return err
		}
		k.Started = true
	}
	k.cluster = m.cfg.describe(k)
	return m.saveState(k)
}

// configure makes etcd run with the settings of an order, and restarts it only if
// they differ, or if the order requires it.
func (m *Member) configure(ctx context.Context, o etcd.Run) error {
	was := m.current()
	k := was
	k.Version, k.Quarantined, k.Stopped = o.Version, o.Quarantined, false
	if m.isRunning() && k.sameAs(was) && !o.Restart {
		return nil
	}
	if m.cfg.Programs.find(k.Version, "etcd") == "" {
		return fault.New(fault.Permanent, "there is no etcd version %s in %s", k.Version, m.cfg.Programs)
	}
	if err := m.snapshot(ctx, k.Version, o.Snapshot); err != nil {
		return err
	}
	var cause error
	if was.Quarantined || o.Restart {
		cause = errKill
	}
	m.halt(cause)
	if err := m.saveState(k); err != nil {
		return err
	}
	return m.launch()
}

func (m *Member) current() storedState {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stored
}

// saveState stores the state, on disk first.
func (m *Member) saveState(k storedState) error {
	if err := m.data.save(k); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stored = k
	return nil
}
