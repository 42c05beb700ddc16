package dns

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// zonesAge is how old the list of zones may be.
	zonesAge = 15 * time.Minute
	// mostDoublings bounds the pause after failures: interval × 2^5.
	mostDoublings = 5
)

// Source shows the cluster.
type Source interface {
	// Seen returns what the cluster has, and a number that is another one whenever that may
	// have changed. It is not complete before every list was read once.
	Seen() (seen Seen, version uint64, complete bool)
}

// Controller keeps zones as the cluster is.
type Controller struct {
	Provider Provider
	Source   Source
	Rules
	// Events receives why names are refused; nil: it is logged only.
	Events Events
	// Specs pick zones; none: all.
	Specs []ZoneSpec
	// Interval is the time between rounds.
	Interval time.Duration
	Now      func() time.Time
	Sleep    func(context.Context, time.Duration) error
	Log      *slog.Logger

	listed  retry
	zones   Zones
	states  map[Zone]*state
	version uint64
	want    map[Zone][]Set
	outside []Refusal // names without a zone, and those that their objects may not have
	askers  map[string][]Object
	logged  map[Refusal]bool
	notices map[Object]notice

	mu     sync.Mutex
	status Status
}

// state is what is known of a zone.
type state struct {
	retry
	// have is what the zone holds; nil: that is not known.
	have Content
	// read says that its sets were read once.
	read bool
	// done is the version of the cluster that the zone agrees with; 0: none.
	done    uint64
	refused []Refusal
}

// retry is when something is tried again.
type retry struct {
	failures int
	next     time.Time
}

func (r *retry) failed(now time.Time, interval time.Duration) {
	r.next = now.Add(interval << min(r.failures, mostDoublings))
	r.failures++
}

// Status is how far a Controller is.
type Status struct {
	// Complete says that the cluster was seen wholly.
	Complete bool
	// Failing are the zones, by their names, whose last round failed; "" is the list of zones.
	Failing map[string]error
	// Wanted and Refused are numbers of sets and names.
	Wanted, Refused int
	// Changed and Failed count changed names and failed rounds of a zone since the start.
	Changed, Failed int
	// Synced is when all zones agreed with the cluster last.
	Synced time.Time
	// Lacking says why the cluster's own names are not published; empty: they are. Other
	// zones do not count here, as a user's annotation may name one that cannot be changed.
	Lacking string
}

// Ready reports whether the cluster's own names were published when that was last tried.
func (s Status) Ready() bool { return s.Complete && s.Lacking == "" }

// Status returns how far it is.
func (c *Controller) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.status
	out.Failing = maps.Clone(out.Failing)
	return out
}

// Run makes rounds until the context ends.
func (c *Controller) Run(ctx context.Context) error {
	for {
		c.Round(ctx)
		if err := c.Sleep(ctx, c.Interval); err != nil {
			return err
		}
	}
}

// Round brings zones up to date that are not, unless the cluster is not known yet.
func (c *Controller) Round(ctx context.Context) {
	seen, version, complete := c.Source.Seen()
	if !complete {
		return
	}
	relisted := c.list(ctx)
	if c.states == nil {
		return // no zone is known yet
	}
	if relisted || version != c.version {
		c.version = version
		c.divide(c.Wanted(seen))
	}
	for _, zone := range c.order() {
		s := c.states[zone]
		if s.done == c.version || c.Now().Before(s.next) {
			continue
		}
		err := c.zone(ctx, zone, s)
		if ctx.Err() != nil {
			return
		}
		c.note(zone.Name, &s.retry, err)
	}
	c.report(ctx)
}

// list lists the zones when that was long ago, and reports that it did.
func (c *Controller) list(ctx context.Context) bool {
	if c.Now().Before(c.listed.next) {
		return false
	}
	all, err := c.Provider.Zones(ctx)
	if ctx.Err() != nil {
		return false
	}
	if err != nil {
		err = fmt.Errorf("list the zones: %w", err)
	}
	c.note("", &c.listed, err)
	if err != nil {
		return false
	}
	c.listed.next = c.Now().Add(zonesAge)
	c.zones = PickZones(all, c.Specs)
	if c.states == nil {
		c.states = map[Zone]*state{}
	}
	return true
}

// divide gives each zone the sets that are wanted in it.
func (c *Controller) divide(d Desired) {
	c.want, c.outside, c.askers = map[Zone][]Set{}, d.Refused, d.Askers
	for _, z := range c.zones.Relevant(c.Owner) {
		c.want[z] = nil
	}
	for _, s := range d.Sets {
		z, why := c.zones.Of(s.Name)
		if why != "" {
			c.outside = append(c.outside, Refusal{Name: s.Name, Why: why})
			continue
		}
		c.want[z] = append(c.want[z], s)
	}
	for z := range c.want {
		if c.states[z] == nil {
			c.states[z] = &state{}
		}
	}
	for z, s := range c.states {
		_, wanted := c.want[z]
		if c.zones.named[z.Name] != z || !wanted && !s.read { // gone, or never more than tried
			c.forget(z)
		} else if s.have != nil {
			s.done = 0
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status.Wanted = len(d.Sets)
}

// forget drops a zone that is gone, or is not picked any more.
func (c *Controller) forget(z Zone) {
	delete(c.states, z)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.status.Failing, z.Name)
}

// order puts the zone of the cluster's own names first.
func (c *Controller) order() []Zone {
	own, _ := c.zones.Of(c.Owner.Cluster)
	return slices.SortedFunc(maps.Keys(c.states), func(a, b Zone) int {
		switch {
		case a == own && b != own:
			return -1
		case b == own && a != own:
			return 1
		}
		return compareKeys(Key{a.Name, a.ID}, Key{b.Name, b.ID})
	})
}

// zone brings a zone up to date. What it holds is read at first, after a failure, and
// before a name is taken that the cluster did not have.
func (c *Controller) zone(ctx context.Context, zone Zone, s *state) (err error) {
	defer func() {
		if err != nil {
			s.have, s.done = nil, 0
		}
	}()
	fresh := s.have == nil
	if fresh {
		if err := c.read(ctx, zone, s); err != nil {
			return err
		}
	}
	p := c.Owner.Plan(zone, c.want[zone], s.have)
	if p.Claims && !fresh {
		if err := c.read(ctx, zone, s); err != nil {
			return err
		}
		p = c.Owner.Plan(zone, c.want[zone], s.have)
	}
	if len(p.Changes) > 0 {
		if err := c.Provider.Apply(ctx, zone, p.Changes); err != nil {
			return fmt.Errorf("change the zone %s: %w", zone.Name, err)
		}
		c.applied(zone, s, p.Changes)
	}
	s.refused, s.done = p.Refused, c.version
	return nil
}

func (c *Controller) read(ctx context.Context, zone Zone, s *state) error {
	sets, err := c.Provider.Records(ctx, zone)
	if err != nil {
		return fmt.Errorf("list the records of the zone %s: %w", zone.Name, err)
	}
	s.have, s.read = NewContent(sets), true
	return nil
}

func (c *Controller) applied(zone Zone, s *state, changes []Change) {
	for _, change := range changes {
		s.have.Apply(change)
		for _, set := range change.Delete {
			if set.Type != TXT {
				c.Log.Info("withdrew", "zone", zone.Name, "name", set.Name, "type", set.Type, "values", set.Values)
			}
		}
		for _, set := range change.Upsert {
			if set.Type != TXT {
				c.Log.Info("published", "zone", zone.Name, "name", set.Name, "type", set.Type, "values", set.Values)
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status.Changed += len(changes)
}

// note keeps how a try went.
func (c *Controller) note(zone string, r *retry, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.status.Failing == nil {
		c.status.Failing = map[string]error{}
	}
	if err == nil {
		*r = retry{}
		delete(c.status.Failing, zone)
		return
	}
	r.failed(c.Now(), c.Interval)
	c.status.Failing[zone] = err
	c.status.Failed++
	c.Log.Error("cannot bring the zone up to date; trying again", "zone", zone, "again", r.next.Sub(c.Now()), "error", err)
}

// report logs each refusal once, writes events about it, and keeps the state of the round.
func (c *Controller) report(ctx context.Context) {
	all := slices.Clone(c.outside)
	agreed := true
	for _, s := range c.states {
		all = append(all, s.refused...)
		agreed = agreed && s.done == c.version
	}
	now := map[Refusal]bool{}
	for _, r := range all {
		if now[r] = true; !c.logged[r] {
			c.Log.Warn("a name is not published", "name", r.Name, "why", r.Why, "namespace", r.Object.Namespace, "object", r.Object.Name)
		}
	}
	c.notify(ctx, all)
	c.logged = now
	lacking := c.lacking()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status.Lacking = lacking
	c.status.Complete, c.status.Refused = true, len(now)
	if agreed {
		c.status.Synced = c.Now()
	}
}

// lacking says why the cluster's own names are not published.
func (c *Controller) lacking() string {
	if err := c.Status().Failing[""]; err != nil {
		return err.Error()
	}
	for _, name := range []string{c.Owner.Cluster, Canonical(c.Owner.API)} {
		if name == "" {
			continue
		}
		zone, why := c.zones.Of(name)
		if why != "" {
			return name + ": " + why
		}
		if s := c.states[zone]; s == nil || s.done != c.version {
			if err := c.Status().Failing[zone.Name]; err != nil {
				return err.Error()
			}
			return "the zone " + zone.Name + " does not agree with the cluster yet"
		}
	}
	return ""
}
