package manager

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/node/etcd/backup"
	"kops.local/kops/internal/node/etcd/peer"
	"kops.local/kops/internal/store"
)

// world consists of machines with managers, a network that can be partitioned, a
// store, and the clusters of a model of etcd. Faults are injected where production
// code meets the world.
type world struct {
	rng        *rand.Rand
	now        time.Time
	ticks      int
	objects    *store.Memory
	machines   map[string]*machine
	clusters   map[string]*cluster // by token
	faults     bool
	requests   int             // number of requests to the store
	storeOff   bool            // no machine reaches the store
	storeOn    time.Time       // since when it can be reached
	damaged    map[string]bool // damaged backups
	spec       etcd.Spec       // the wanted state
	seats      []string        // the peers that should be members
	seatsNamed bool            // whether the store names them
	busy       []string        // machines whose tick is running
	nested     bool            // another machine's tick ran within this one
	violations []string        // violated promises
	log        *slog.Logger

	written          map[string][]string // acknowledged writes by token
	lastWritten      string              // token of the last write
	superseded       map[string]time.Time
	restores         int
	tokens           int
	revision         int64             // the highest that was served
	clusterByCommand map[string]string // the token of the cluster that a command created and that took writes, by command
	scratch          string            // folder for the snapshots of archives
}

// machine is a peer: it may be off, its manager may need to be started again, its disk may be empty.
type machine struct {
	w       *world
	id      string
	off     bool
	running bool          // etcd, which stops with its manager
	crashed bool          // the manager has died in the middle of an operation
	ahead   time.Duration // of its clock
	side    int           // of a partitioned network
	manager *Manager
	state   etcd.State
	data    []string // the log of writes on the disk
}

// cluster is one life of etcd: a list of members and a log of committed writes.
type cluster struct {
	token   string
	founder string
	members []*member
	log     []string
	nextID  int
	// base is the revision at which the log begins.
	base   int64
	leader string
	// downgrade is the version to which etcd may be downgraded.
	downgrade string
}

type member struct {
	id, peer string
	name     string
	learner  bool
}

func newWorld(seed uint64, ids ...string) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 1)), now: time.Date(2026, 8, 1, 10, 0, 0, 0, time.UTC), objects: store.NewMemory("memory://etcd"),
		machines: map[string]*machine{}, clusters: map[string]*cluster{}, written: map[string][]string{}, superseded: map[string]time.Time{}, damaged: map[string]bool{}, clusterByCommand: map[string]string{}, scratch: os.TempDir(),
		log: slog.New(slog.DiscardHandler)}
	for _, id := range ids {
		w.add(id)
	}
	return w
}

func (w *world) add(id string) *machine {
	m := &machine{w: w, id: id}
	w.machines[id] = m
	m.boot()
	return m
}

// boot starts the manager, without any state in memory.
func (m *machine) boot() {
	w := m.w
	m.crashed, m.running = false, false
	var all peer.Static
	for i := range 9 {
		all = append(all, endpoint(string(rune('a'+i))))
	}
	objects := etcd.Guard(&flaky{m, w.objects})
	now := func() time.Time { return w.now.Add(m.ahead) }
	m.manager = New(Config{
		Cluster:  "etcd",
		Self:     etcd.Peer{ID: m.id, Endpoint: endpoint(m.id), PeerURLs: []string{"https://" + m.id + ":2380"}, ClientURLs: []string{"https://" + m.id + ":4001"}},
		Versions: func() []string { return []string{"3.5.35", "3.6.12", "3.7.0"} },
		Local:    m, Etcd: view{m}, Link: link{m}, Discovery: all, Store: objects,
		Archive: &backup.Archive{Store: objects, Retention: etcd.DefaultRetention(), Now: now, Scratch: w.scratch, Inspect: inspectWrites},
		Policy:  etcd.DefaultPolicy(), Times: DefaultTimes(), Now: now,
		Token: func() string { w.tokens++; return fmt.Sprintf("T%d", w.tokens) },
		Log:   w.log.With("peer", m.id),
		Each: func(n int, do func(int)) {
			for i := range n {
				do(i)
			}
		},
	})
}

func endpoint(id string) string { return id + ":3996" }

// tick runs one machine's manager once.
func (w *world) tick(id string) time.Duration {
	m := w.machines[id]
	if m == nil || m.off || slices.Contains(w.busy, id) {
		return time.Second
	}
	if m.crashed {
		m.boot()
	}
	w.ticks++
	w.busy = append(w.busy, id)
	if len(w.busy) == 1 {
		w.nested = false
	}
	pause := m.manager.Tick(context.Background())
	w.busy = w.busy[:len(w.busy)-1]
	return pause
}

// interleave sometimes lets another manager do a round in between, or lets this
// one sleep, partitioned from the others, while they run.
func (w *world) interleave(m *machine) {
	if !w.faults || len(w.busy) > 2 {
		return
	}
	rounds := 0
	switch w.rng.IntN(30) {
	case 0, 1, 2:
		rounds = 1
	case 3:
		rounds = 30
	}
	if side := m.side; rounds > 1 {
		m.side = 9
		defer func() { m.side = side }()
	}
	for i := range rounds {
		w.nested = true
		ids := slices.Sorted(maps.Keys(w.machines))
		w.tick(ids[w.rng.IntN(len(ids))])
		if rounds > 1 {
			w.disturb(context.Background())
			w.write(ids[w.rng.IntN(len(ids))], fmt.Sprintf("n%d.%d", w.ticks, i))
			w.now = w.now.Add(time.Duration(w.rng.IntN(4000)) * time.Millisecond)
		}
	}
}

// errGone is the error that a dead manager gets: nothing it does has an effect.
var errGone = errors.New("the manager has died")

// mishap runs something that can fail before or after its effect: the manager
// dies, or only the answer is lost.
func (m *machine) mishap(do func() error) error {
	if m.crashed || m.off {
		return errGone
	}
	if !m.w.faults {
		return do()
	}
	switch m.w.rng.IntN(40) {
	case 0:
		m.crashed = true
		return errGone
	case 1:
		err := do()
		m.crashed = true
		return errors.Join(errGone, err)
	case 2:
		return fault.New(fault.Lost, "the request is lost")
	case 3:
		return errors.Join(fault.New(fault.Lost, "the answer is lost"), do())
	}
	return do()
}

func (m *machine) canReach(o *machine) bool { return !m.off && !o.off && m.side == o.side }

// link is the network from one machine.
type link struct{ from *machine }

func (l link) Service(endpoint string) peer.Service {
	return wire{l.from, strings.TrimSuffix(endpoint, ":3996")}
}

type wire struct {
	from *machine
	to   string
}

func (x wire) target() (*Manager, error) {
	to := x.from.w.machines[x.to]
	if x.from.crashed || to == nil || to.crashed || !x.from.canReach(to) || x.from.w.faults && x.from.w.rng.IntN(30) == 0 {
		return nil, fault.New(fault.Lost, "%s does not answer", x.to)
	}
	return to.manager, nil
}

func (x wire) Hello(ctx context.Context, h peer.Hello) (peer.Hello, error) {
	to, err := x.target()
	if err != nil {
		return peer.Hello{}, err
	}
	return to.Hello(ctx, h)
}

func (x wire) Claim(ctx context.Context, c etcd.Claim) (etcd.Peer, error) {
	to, err := x.target()
	if err != nil {
		return etcd.Peer{}, err
	}
	return to.Claim(ctx, c)
}

func (x wire) Order(ctx context.Context, o peer.Order) error {
	x.from.w.interleave(x.from)
	to, err := x.target()
	if err != nil {
		return err
	}
	return x.from.mishap(func() error { return to.Order(ctx, o) })
}

// State, Run, Stop, Resume and RenewCertificates make a machine the Local of its manager.
func (m *machine) State() etcd.State {
	return m.state
}

func (m *machine) Run(ctx context.Context, o etcd.Run) error {
	w := m.w
	if m.state.Token != o.Token || m.state.Seat != o.Seat {
		if !o.Fresh {
			return fault.New(fault.Conflict, "the data are not here")
		}
		m.data = nil
		if o.Seat == etcd.FounderSeat {
			if err := m.foundCluster(ctx, o); err != nil {
				return err
			}
		}
	}
	m.state = etcd.State{Token: o.Token, Seat: o.Seat, Version: o.Version, Quarantined: o.Quarantined, Started: true}
	m.running = true
	w.checkVersions(w.clusters[o.Token])
	return nil
}

// foundCluster founds a cluster at a machine, from a backup if one is given.
func (m *machine) foundCluster(ctx context.Context, o etcd.Run) error {
	w := m.w
	if c := w.clusters[o.Token]; c != nil && c.founder != m.id {
		w.breaks("%s and %s both found cluster %s", c.founder, m.id, o.Token)
	}
	c := &cluster{token: o.Token, founder: m.id, members: []*member{{id: "1", peer: m.id, name: m.id}}, nextID: 2, base: 1}
	if o.Backup != "" {
		packed, _, err := w.objects.Get(ctx, o.Backup+etcd.SnapshotName)
		if err != nil {
			return err
		}
		revision, log, err := unpackWrites(packed)
		if err != nil {
			return err
		}
		m.data = log
		c.base = revision + etcd.RevisionIncrease(revision, o.Served) - int64(len(log))
	}
	c.log, w.written[o.Token] = slices.Clone(m.data), slices.Clone(m.data)
	w.clusters[o.Token] = c
	return nil
}

// checkVersions records a violation if members are more than one minor version
// apart, with which etcd does not work.
func (w *world) checkVersions(c *cluster) {
	minors := map[string]bool{}
	for _, x := range c.members {
		if m := w.machines[x.peer]; m != nil && m.state.Token == c.token && (m.state.Seat == x.id || m.state.Seat == etcd.FounderSeat && x.id == "1") {
			minors[m.state.Version[:3]] = true
		}
	}
	if minors["3.5"] && minors["3.7"] {
		w.breaks("cluster %s runs etcd 3.5 and 3.7 at once", c.token)
	}
}

func (m *machine) Resume(context.Context) error {
	m.running = m.state.Token != "" && !m.state.Stopped
	return nil
}

func (m *machine) Stop(context.Context) error {
	m.state.Stopped, m.running = m.state.Token != "", false
	return nil
}

func (m *machine) RenewCertificates() error { return nil }

// elect keeps the leader while it is active, and otherwise chooses the first active voter.
func (c *cluster) elect(w *world, from *machine) {
	first := ""
	for _, x := range c.members {
		if x.learner || w.active(c, x, from) == nil {
			continue
		}
		if x.id == c.leader {
			return
		}
		if first == "" {
			first = x.id
		}
	}
	c.leader = first
}

// active returns the machine on which a member runs, if it is running and reachable.
func (w *world) active(c *cluster, x *member, from *machine) *machine {
	m := w.machines[x.peer]
	if m == nil || !from.canReach(m) || m.crashed || m.state.Token != c.token || !m.running {
		return nil
	}
	if m.state.Seat == x.id || m.state.Seat == etcd.FounderSeat && x.id == "1" {
		return m
	}
	return nil
}

// majority returns the machines of the reachable voters if they are a majority,
// all brought up to date with one another.
func (w *world) majority(c *cluster, from *machine) []*machine {
	if c == nil {
		return nil
	}
	var up []*machine
	voters := 0
	for _, x := range c.members {
		if x.learner {
			continue
		}
		voters++
		if m := w.active(c, x, from); m != nil {
			up = append(up, m)
		}
	}
	if len(up) <= voters/2 {
		return nil
	}
	longest := slices.MaxFunc(up, func(a, b *machine) int { return len(a.data) - len(b.data) }).data
	if len(longest) < len(c.log) {
		w.breaks("cluster %s: a majority knows %d of %d writes", c.token, len(longest), len(c.log))
		c.log = longest
	}
	return up
}

// commit stores the log and another write on a random minimal majority.
func (w *world) commit(c *cluster, up []*machine, write string) {
	if write != "" {
		c.log = append(c.log, write)
	}
	voters := 0
	for _, x := range c.members {
		if !x.learner {
			voters++
		}
	}
	for _, i := range w.rng.Perm(len(up))[:min(len(up), voters/2+1)] {
		up[i].data = slices.Clone(c.log)
	}
}

func (w *world) breaks(format string, args ...any) {
	w.violations = append(w.violations, fmt.Sprintf(format, args...))
}

// view is etcd's API as seen from one machine.
type view struct{ m *machine }

func (v view) ListMembers(_ context.Context, token string, peers []etcd.Peer) []etcd.Member {
	w := v.m.w
	c := w.clusters[token]
	if v.m.crashed || w.majority(c, v.m) == nil {
		return nil
	}
	asked := func(x *member) bool {
		return slices.ContainsFunc(peers, func(p etcd.Peer) bool { return p.ID == x.peer })
	}
	if !slices.ContainsFunc(c.members, func(x *member) bool { return asked(x) && !x.learner && w.active(c, x, v.m) != nil }) {
		return nil // no member is asked
	}
	var out []etcd.Member
	c.elect(w, v.m)
	for _, x := range c.members {
		m := w.active(c, x, v.m)
		e := etcd.Member{ID: x.id, Name: x.name, PeerURLs: []string{"https://" + x.peer + ":2380"}, Learner: x.learner}
		if m != nil && asked(x) {
			x.name = x.peer // it has published its name
			e.Name, e.Healthy, e.Version = x.name, true, m.state.Version
			e.Leader, e.Revision = x.id == c.leader, c.base+int64(len(m.data))
			e.Downgrade, e.Storage = c.downgrade, c.downgrade
		}
		out = append(out, e)
	}
	return out
}

func (v view) Change(_ context.Context, a etcd.Action) error {
	v.m.w.interleave(v.m)
	return v.m.mishap(func() error { return v.change(a) })
}

func (v view) change(a etcd.Action) error {
	w := v.m.w
	c := w.clusters[v.m.manager.lead.control.Record.Token]
	up := w.majority(c, v.m)
	if up == nil {
		return fault.New(fault.NotYet, "no majority")
	}
	find := func(id string) *member {
		i := slices.IndexFunc(c.members, func(x *member) bool { return x.id == id })
		if i < 0 {
			return &member{}
		}
		return c.members[i]
	}
	switch a := a.(type) {
	case etcd.AddLearner:
		if slices.ContainsFunc(c.members, func(x *member) bool { return x.learner || x.peer == a.Peer }) {
			return fault.New(fault.NotYet, "too many learners")
		}
		c.members = append(c.members, &member{id: fmt.Sprint(c.nextID), peer: a.Peer, learner: true})
		c.nextID++
	case etcd.Promote:
		x := find(a.Member)
		m := w.active(c, x, v.m)
		if m == nil {
			return fault.New(fault.NotYet, "not caught up")
		}
		m.data = slices.Clone(c.log)
		x.learner = false
	case etcd.MoveLeader:
		c.leader = a.Member
	case etcd.AllowDowngrade:
		c.downgrade = a.Version
	case etcd.Remove:
		return v.remove(c, find(a.Member))
	}
	w.commit(c, up, "")
	return nil
}

// remove rejects what etcd rejects (strict reconfiguration check), which no
// well-informed leader may request.
func (v view) remove(c *cluster, x *member) error {
	w := v.m.w
	if x.id == "" {
		return nil
	}
	if !x.learner {
		voters, alive := 0, 0
		for _, y := range c.members {
			if y.learner {
				continue
			}
			voters++
			if y != x && w.active(c, y, v.m) != nil {
				alive++
			}
		}
		if alive < (voters-1)/2+1 {
			if !w.nested {
				w.breaks("the removal of member %s leaves %d of %d", x.id, alive, voters-1)
			}
			return fault.New(fault.NotYet, "unhealthy cluster")
		}
	}
	c.members = slices.DeleteFunc(c.members, func(y *member) bool { return y == x })
	w.commit(c, w.majority(c, v.m), "")
	return nil
}

// Snapshot writes the log of writes in the form of a snapshot.
func (v view) Snapshot(_ context.Context, out io.Writer) (backup.Origin, error) {
	w := v.m.w
	c := w.clusters[v.m.manager.lead.control.Record.Token]
	if w.majority(c, v.m) == nil {
		return backup.Origin{}, fault.New(fault.NotYet, "no majority")
	}
	revision := c.base + int64(len(c.log))
	_, err := out.Write(packWrites(revision, c.log))
	return backup.Origin{EtcdVersion: "3.6.12", Revision: revision, Keys: int64(len(c.log))}, err
}

// write is a client that writes through the etcd of a machine; it reports success.
func (w *world) write(id, value string) bool {
	m := w.machines[id]
	if m == nil {
		return false
	}
	c := w.clusters[m.state.Token]
	if m.off || c == nil || m.state.Quarantined {
		return false
	}
	open := slices.ContainsFunc(c.members, func(x *member) bool { return !x.learner && w.active(c, x, m) == m })
	up := w.majority(c, m)
	if !open || up == nil {
		return false
	}
	w.commit(c, up, value)
	w.written[c.token] = append(w.written[c.token], value)
	w.checkOnly(c)
	w.checkRevision(c)
	return true
}

// checkRevision records a violation if a client sees an older revision than before: it would
// then take its cache to be newer than new answers.
func (w *world) checkRevision(c *cluster) {
	if c.token != w.lastWritten {
		return // it was replaced, and does not know that yet
	}
	now := c.base + int64(len(c.log))
	if now <= w.revision {
		w.breaks("cluster %s serves revision %d after %d", c.token, now, w.revision)
	}
	w.revision = now
}

// checkOnce records a violation if a command was carried out a second time.
func (w *world) checkOnce(c *cluster) {
	r, err := etcd.ReadRecord(context.Background(), w.objects)
	if err != nil || r == nil || r.Token != c.token || r.Command == "" {
		return
	}
	if before := w.clusterByCommand[r.Command]; before != "" && before != c.token {
		w.breaks("the command %s made cluster %s, and then %s", r.Command, before, c.token)
	}
	w.clusterByCommand[r.Command] = c.token
}

// checkOnly records a violation if clients could write to two clusters of one spec.
func (w *world) checkOnly(c *cluster) {
	if w.lastWritten == c.token {
		return
	}
	if at, gone := w.superseded[c.token]; gone && !w.storeOff {
		if w.storeOn.After(at) {
			at = w.storeOn
		}
		if after := w.now.Sub(at); after > 2*DefaultTimes().Control {
			w.breaks("cluster %s takes writes %s after it was replaced", c.token, after)
		}
	}
	if _, gone := w.superseded[c.token]; gone {
		return
	}
	if w.lastWritten != "" {
		w.superseded[w.lastWritten] = w.now
		if len(w.superseded) > w.restores {
			w.breaks("cluster %s replaces %s without a command", c.token, w.lastWritten)
		}
	}
	w.lastWritten = c.token
	w.checkOnce(c)
}
