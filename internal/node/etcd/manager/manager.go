// Package manager is the life of an etcd-manager: it meets the managers of the
// other peers, leads them or follows, and as the leader does what package etcd decides.
//
// It must not know how the others are reached, how etcd is run or talked to, nor
// what time it is: all of that is handed in, and replaced in tests.
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
	// Run and Stop carry out an order; doing it twice does no harm.
	Run(ctx context.Context, o etcd.Run) error
	Stop(ctx context.Context) error
	// Resume runs etcd if it ran before this process began.
	Resume(ctx context.Context) error
	// RenewCertificates issues etcd's certificates again where that is due.
	RenewCertificates() error
}

// Cluster is the API of the running etcd. It is not used concurrently.
type Cluster interface {
	backup.Source
	// Look returns the members of a cluster, asked of those at the peers; nil when
	// no majority answers.
	Look(ctx context.Context, token string, peers []etcd.Peer) []etcd.Member
	// Change makes a change of the membership; repeating a change is not an error.
	Change(ctx context.Context, a etcd.Action) error
	// Defragment rewrites the database of a member, compacted first if that is wanted, and
	// returns its sizes before and after.
	Defragment(ctx context.Context, member string, compact bool) (before, after int64, err error)
	// Disarm ends the alarms and returns them; with compare only where all members have
	// the same data, or else the class of the error is fault.Permanent.
	Disarm(ctx context.Context, compare bool) ([]string, error)
}

// Times are the pauses of a manager.
type Times struct {
	// Meet is how often the other managers are greeted, and the leader looks around.
	Meet time.Duration
	// Heard is how long a manager counts as well after it was last heard of.
	Heard time.Duration
	// Discover is how often the discovery is asked again; at first, with every greeting.
	Discover time.Duration
	// Control is how often the store is read for commands, when nothing else is going on.
	Control time.Duration
	// Soon is the pause while something is on its way.
	Soon time.Duration
	// Renew is how often it is looked whether etcd's certificates are due.
	Renew time.Duration
}

// DefaultTimes greets every 5 seconds, as kOps' manager does, and discovers every minute.
func DefaultTimes() Times {
	return Times{Meet: 5 * time.Second, Heard: 20 * time.Second, Discover: time.Minute, Control: 30 * time.Second,
		Soon: 300 * time.Millisecond, Renew: time.Minute}
}

const (
	// callTimeout is how long another manager may take to answer a greeting or a claim.
	callTimeout = 5 * time.Second
	// orderTimeout is how long an order may take; the restore of a back-up takes longest.
	orderTimeout = 30 * time.Minute
	// storeTimeout is how long the small objects of the store may take to be read or
	// written, and transferTimeout a back-up. A manager that waits for an answer that
	// never comes would still be heard by the others, and so lead for ever.
	storeTimeout, transferTimeout = 20 * time.Second, 15 * time.Minute
	// discoverTimeout is how long the search for other managers may take, and for the
	// addresses of their names.
	discoverTimeout = 10 * time.Second
	// youth is how long after its start a manager looks for others more often.
	youth = 2 * time.Minute
)

// Config is what a manager works with.
type Config struct {
	// Cluster is the name of the etcd cluster, such as etcd-events.
	Cluster string
	// Self is this peer; its State and Versions are asked of Local and Versions.
	Self     etcd.Peer
	Versions func() []string

	Local     Local
	Etcd      Cluster
	Link      peer.Link
	Discovery peer.Discovery
	Store     store.Store
	Archive   *backup.Archive
	// Hosts receives the addresses of the peers, by name; nil means that nobody needs them.
	Hosts func(ctx context.Context, addresses map[string]string) error

	// Drill restores a back-up beside the cluster and compares it with what the member at
	// a peer serves. It is called by a goroutine of its own, one at a time.
	Drill func(ctx context.Context, backup string, at etcd.Peer) etcd.Drilled

	Policy etcd.Policy
	Times  Times
	Now    func() time.Time
	// Token returns a fresh random text of letters, digits, - and _.
	Token func() string
	Log   *slog.Logger
	// Each calls do for each number below n, at once or one after the other, and
	// returns when all have returned.
	Each func(n int, do func(i int))
}

// Together is an Each that calls at once.
func Together(n int, do func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { do(i) })
	}
	wg.Wait()
}

// Manager is one manager. Tick and Run are called by one goroutine; Wake and the
// methods of peer.Service by any.
type Manager struct {
	cfg     Config
	started time.Time
	renewed time.Time

	orders sync.Mutex // held while an order is carried out, and while a claim is judged
	mu     sync.Mutex // guards roster, agreed and status
	roster etcd.Roster
	agreed string // the leadership token that orders have to bear
	status Status

	woken chan struct{} // holds at most one call of Wake

	known      []etcd.Sighting // what discovery found
	discovered time.Time
	met        time.Time
	fenced     time.Time // when it was last known whether this cluster is still the one
	resumed    bool      // etcd was started if it ran before
	barred     string    // the cluster in whose favour etcd is not started, once that was said
	refused    bool      // the last claim was not agreed to
	lead       leadership
	drill      drill
	drills     sync.WaitGroup // the goroutines of drills
	told       *etcd.Status   // what the store was told last
	toldAt     time.Time      // when that was, or was tried

	// since the start: failures of actions and observations, back-ups taken and not, and
	// how long the last one took
	failed, taken, untaken int64
	took                   time.Duration
}

// leadership is what only a leader remembers.
type leadership struct {
	token      string // empty when not leading
	won        bool
	memory     etcd.Memory
	control    etcd.Control
	controlled time.Time
	lastBackup time.Time
	backupSeen time.Time
	// backupEmpty says that the youngest back-up holds no keys.
	backupEmpty bool
	backupSize  int64         // in bytes; 0 where it is not known
	members     []etcd.Member // as of the last observation
	failures    int           // of actions, in a row
	failing     bool          // the last decision, other than for a back-up, failed
	// unusable says of commands, by their keys, why they cannot be carried out.
	unusable   map[string]string
	note, told string // what was logged last
}

// New returns a manager that has met nobody yet.
func New(cfg Config) *Manager {
	return &Manager{cfg: cfg, started: cfg.Now(), renewed: cfg.Now(), woken: make(chan struct{}, 1)}
}

// Run goes on until ctx ends.
func (m *Manager) Run(ctx context.Context) {
	defer m.drills.Wait()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(m.Tick(ctx)):
		case <-m.woken:
			m.met, m.discovered = time.Time{}, time.Time{}
		}
	}
}

// Wake makes Run look for others and greet them at once, because something has
// changed. It may be called by any goroutine.
func (m *Manager) Wake() {
	select {
	case m.woken <- struct{}{}:
	default: // it is about to
	}
}

// Tick looks around once and does what follows, and returns when to do so again.
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
			level = slog.LevelDebug // it was said already
		}
		m.cfg.Log.Log(ctx, level, "the claim to lead was not agreed to", "error", err)
		m.lead, m.refused = leadership{}, true
		return m.soonish()
	}
	if m.refused || !m.lead.won {
		m.cfg.Log.Info("this manager leads", "peers", len(peers))
		m.lead.won, m.refused = true, false
	}
	return m.guide(ctx, peers)
}

// pause is the time to the next greeting; a young manager waits less, because others are young, too.
func (m *Manager) pause() time.Duration {
	if m.cfg.Now().Sub(m.started) < youth {
		return m.soonish()
	}
	return m.cfg.Times.Meet
}

// soonish is a pause that does not strain anybody.
func (m *Manager) soonish() time.Duration { return min(3*m.cfg.Times.Soon, m.cfg.Times.Meet) }

// self is this peer as it is now.
func (m *Manager) self() etcd.Peer {
	p := m.cfg.Self
	p.State, p.Versions = m.cfg.Local.State(), m.cfg.Versions()
	return p
}

// healthy returns the peers heard of lately, this one included, ordered by name.
func (m *Manager) healthy() []etcd.Sighting {
	now := m.cfg.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.roster.Heard(m.cfg.Self.ID, m.cfg.Self.Endpoint, now)
	return m.roster.Since(now.Add(-m.cfg.Times.Heard))
}

// renew issues etcd's certificates again before they expire. What fails is tried again.
func (m *Manager) renew() {
	now := m.cfg.Now()
	if now.Sub(m.renewed) < m.cfg.Times.Renew {
		return
	}
	m.renewed = now
	if err := m.cfg.Local.RenewCertificates(); err != nil {
		m.cfg.Log.Error("etcd's certificates are not renewed", "error", err)
	}
}
