// Package manager is the life cycle of an etcd-manager: it meets the managers of the
// other peers, leads them or follows, and as the leader does what package etcd decides.
//
// It must not know how the others are reached, how etcd is run or called, nor what time
// it is: all of that is passed in, and replaced in tests.
package manager

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/node/etcd/backup"
	"kops.local/kops/internal/node/etcd/peer"
	"kops.local/kops/internal/store"
)

// Local is the etcd of this machine.
type Local interface {
	State() etcd.State
	// Run and Stop carry out an order; they are idempotent.
	Run(ctx context.Context, o etcd.Run) error
	Stop(ctx context.Context) error
	// Resume runs etcd if it ran before this process began.
	Resume(ctx context.Context) error
	// RenewCertificates reissues etcd's certificates if they are due.
	RenewCertificates() error
}

// Cluster is the API of the running etcd. It is not used concurrently.
type Cluster interface {
	backup.Source
	// ListMembers returns the members of a cluster, as reported by those at the peers; nil if
	// no majority answers.
	ListMembers(ctx context.Context, token string, peers []etcd.Peer) []etcd.Member
	// Change changes the membership; repeating a change is not an error.
	Change(ctx context.Context, a etcd.Action) error
	// Defragment defragments the database of a member, after compaction if compact is set,
	// and returns its sizes before and after.
	Defragment(ctx context.Context, member string, compact bool) (before, after int64, err error)
	// Disarm clears the alarms and returns them; with compare only if all members have
	// the same data, otherwise the class of the error is fault.Permanent.
	Disarm(ctx context.Context, compare bool) ([]string, error)
}

// Times are the intervals of a manager.
type Times struct {
	// Meet is how often the other managers are greeted, and the leader observes the cluster.
	Meet time.Duration
	// PeerTimeout is how long a manager counts as healthy after it was last heard from.
	PeerTimeout time.Duration
	// Discover is how often discovery runs; at first, it runs with every greeting.
	Discover time.Duration
	// Control is how often the store is read for commands while nothing else is going on.
	Control time.Duration
	// Soon is the pause while something is in progress.
	Soon time.Duration
	// Renew is how often etcd's certificates are checked for renewal.
	Renew time.Duration
}

// DefaultTimes greets every 5 seconds, as kOps' manager does, and discovers every minute.
func DefaultTimes() Times {
	return Times{Meet: 5 * time.Second, PeerTimeout: 20 * time.Second, Discover: time.Minute, Control: 30 * time.Second,
		Soon: 300 * time.Millisecond, Renew: time.Minute}
}

const (
	// callTimeout is how long another manager may take to answer a greeting or a claim.
	callTimeout = 5 * time.Second
	// orderTimeout is how long an order may take; restoring a backup takes longest.
	orderTimeout = 30 * time.Minute
	// storeTimeout is how long reading or writing a small object of the store may
	// take, and transferTimeout a backup. A manager that waited forever for an answer
	// would still be heard by the others, and so lead forever.
	storeTimeout, transferTimeout = 20 * time.Second, 15 * time.Minute
	// discoverTimeout is how long it may take to find other managers, and to resolve
	// their names.
	discoverTimeout = 10 * time.Second
	// youth is how long after its start a manager looks for others more often.
	youth = 2 * time.Minute
)

// Config is the configuration and the dependencies of a manager.
type Config struct {
	// Cluster is the name of the etcd cluster, such as etcd-events.
	Cluster string
	// Self is this peer; its State and Versions are read from Local and Versions.
	Self     etcd.Peer
	Versions func() []string

	Local     Local
	Etcd      Cluster
	Link      peer.Link
	Discovery peer.Discovery
	Store     store.Store
	Archive   *backup.Archive
	// Hosts receives the addresses of the peers, by name; nil if they are not needed.
	Hosts func(ctx context.Context, addresses map[string]string) error

	// Drill restores a backup separately from the cluster and compares it with the data
	// that the member at a peer serves. It is called in its own goroutine, one at a time.
	Drill func(ctx context.Context, backup string, at etcd.Peer) etcd.DrillResult

	Policy etcd.Policy
	Times  Times
	Now    func() time.Time
	// Token returns a fresh random text of letters, digits, - and _.
	Token func() string
	Log   *slog.Logger
	// Each calls do for each number below n, in parallel or in sequence, and returns
	// when all calls have returned.
	Each func(n int, do func(i int))
}

// Together is an Each that makes the calls in parallel.
func Together(n int, do func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { do(i) })
	}
	wg.Wait()
}

// Manager is one manager. Tick and Run must be called from one goroutine; Wake and
// the methods of peer.Service may be called from any.
type Manager struct {
	cfg     Config
	started time.Time
	renewed time.Time

	orders sync.Mutex // held while an order is carried out, and while a claim is judged
	mu     sync.Mutex // guards roster, agreed and status
	roster etcd.Roster
	agreed string // the leadership token that orders must have
	status Status

	wakeups chan struct{} // holds at most one call of Wake

	known           []etcd.Sighting // what discovery found
	discovered      time.Time
	met             time.Time
	fenced          time.Time // when this cluster was last known to be the valid one
	resumed         bool      // etcd was started if it ran before
	barredBy        string    // the cluster that keeps etcd from being started, once that was logged
	refused         bool      // the last claim was rejected
	lead            leadership
	drill           drill
	drills          sync.WaitGroup // the goroutines of drills
	lastStatus      *etcd.Status   // the last status written to the store
	statusWrittenAt time.Time      // when that was written, or attempted

	// since startup: failures of actions and observations, successful and failed
	// backups, and how long the last one took
	failed, backupsTaken, backupsFailed int64
	backupDuration                      time.Duration
}

// leadership is the state that only a leader has.
type leadership struct {
	token      string // empty when not leading
	won        bool
	memory     etcd.Memory
	control    etcd.Control
	controlled time.Time
	lastBackup time.Time
	backupSeen time.Time
	// backupEmpty is set if the latest backup has no keys.
	backupEmpty bool
	backupSize  int64         // in bytes; 0 if it is not known
	members     []etcd.Member // as of the last observation
	failures    int           // of actions, in a row
	failing     bool          // the last decision, other than for a backup, failed
	// unusable holds the reasons why commands cannot be carried out, by key.
	unusable             map[string]string
	lastNote, loggedNote string // what was logged last
}

// New returns a manager that has not met any other yet.
func New(cfg Config) *Manager {
	return &Manager{cfg: cfg, started: cfg.Now(), renewed: cfg.Now(), wakeups: make(chan struct{}, 1)}
}

// Run runs the manager until ctx ends.
func (m *Manager) Run(ctx context.Context) {
	defer m.drills.Wait()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(m.Tick(ctx)):
		case <-m.wakeups:
			m.met, m.discovered = time.Time{}, time.Time{}
		}
	}
}

// Wake makes Run look for others and greet them at once, because something has
// changed. It may be called from any goroutine.
func (m *Manager) Wake() {
	select {
	case m.wakeups <- struct{}{}:
	default: // it is about to
	}
}

// Tick observes and acts once, and returns the time until the next call.
func (m *Manager) Tick(ctx context.Context) time.Duration {
	defer m.publish()
	m.meet(ctx)
	m.fence(ctx)
	m.renew()
	if first := m.healthy()[0].ID; first != m.cfg.Self.ID {
		if m.lead.token != "" {
			m.cfg.Log.Info("another manager leads", "leader", first)
		}
		m.lead = leadership{}
		return m.pause()
	}
	peers, err := m.claim(ctx)
	if err != nil {
		level := slog.LevelInfo
		if m.refused {
			level = slog.LevelDebug // it was logged already
		}
		m.cfg.Log.Log(ctx, level, "the claim to lead was not accepted", "error", err)
		m.lead, m.refused = leadership{}, true
		return m.shortPause()
	}
	if m.refused || !m.lead.won {
		m.cfg.Log.Info("this manager leads", "peers", len(peers))
		m.lead.won, m.refused = true, false
	}
	return m.leaderTick(ctx, peers)
}

// pause returns the time until the next greeting; shortly after startup it is shorter, because
// other managers may be starting, too.
func (m *Manager) pause() time.Duration {
	if m.cfg.Now().Sub(m.started) < youth {
		return m.shortPause()
	}
	return m.cfg.Times.Meet
}

// shortPause returns a short pause that does not cause much load.
func (m *Manager) shortPause() time.Duration { return min(3*m.cfg.Times.Soon, m.cfg.Times.Meet) }

// self returns this peer with its current state.
func (m *Manager) self() etcd.Peer {
	p := m.cfg.Self
	p.State, p.Versions = m.cfg.Local.State(), m.cfg.Versions()
	return p
}

// healthy returns the peers heard from recently, including this one, ordered by name.
func (m *Manager) healthy() []etcd.Sighting {
	now := m.cfg.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.roster.RecordContact(m.cfg.Self.ID, m.cfg.Self.Endpoint, now)
	return m.roster.Since(now.Add(-m.cfg.Times.PeerTimeout))
}

// renew reissues etcd's certificates before they expire. Failures are retried.
func (m *Manager) renew() {
	now := m.cfg.Now()
	if now.Sub(m.renewed) < m.cfg.Times.Renew {
		return
	}
	m.renewed = now
	if err := m.cfg.Local.RenewCertificates(); err != nil {
		m.cfg.Log.Error("cannot renew etcd's certificates", "error", err)
	}
}
