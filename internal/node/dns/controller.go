package dns

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"kops.local/kops/internal/node/dns/records"
)

const (
	// zonesAge is the maximum age of the list of zones.
	zonesAge = 15 * time.Minute
	// maxDoublings limits the pause after failures: interval × 2^5.
	maxDoublings = 5
)

// Source provides the state of the cluster.
type Source interface {
	// Snapshot returns the cluster's objects, and a version that changes whenever they may have
	// changed. It is not complete until every list has been read once.
	Snapshot() (seen Snapshot, version uint64, complete bool)
}

// Controller keeps zones in line with the cluster.
type Controller struct {
	Provider records.Provider
	Source   Source
	Rules
	// Events receives the reasons why names are refused; if nil, they are only logged.
	Events Events
	// Specs select zones; if empty, all are selected.
	Specs []ZoneSpec
	// Interval is the time between rounds.
	Interval time.Duration
	Now      func() time.Time
	Sleep    func(context.Context, time.Duration) error
	Log      *slog.Logger

	listRetry  retry
	zones      Zones
	states     map[records.Zone]*state
	version    uint64
	want       map[records.Zone][]records.Set
	outside    []Refusal // names without a zone, and names that their objects may not publish
	requesters map[string][]Object
	logged     map[Refusal]bool
	notices    map[Object]notice

	mu     sync.Mutex
	status Status
}

// state is the known state of a zone.
type state struct {
	retry
	// have is the content of the zone; nil if it is unknown.
	have Content
	// read is set once the zone's record sets have been read.
	read bool
	// appliedVersion is the version of the cluster that the zone matches; 0 if none.
	appliedVersion uint64
	refused        []Refusal
}

// retry is when an operation is retried.
type retry struct {
	failures int
	next     time.Time
}

func (r *retry) failed(now time.Time, interval time.Duration) {
	r.next = now.Add(interval << min(r.failures, maxDoublings))
	r.failures++
}

// Status is the progress of a Controller.
type Status struct {
	// Complete is set once the cluster's objects have all been read.
	Complete bool
	// Failing holds the zones, by name, whose last round failed; "" stands for the list of zones.
	Failing map[string]error
	// Wanted is the number of record sets, Refused of names.
	Wanted, Refused int
	// Changed is the number of changed names since startup, Failed of a zone's failed rounds.
	Changed, Failed int
	// Synced is when all zones last matched the cluster.
	Synced time.Time
	// Unpublished is the reason why the cluster's own names are not published; empty if they
	// are. Other zones do not count here, because a user's annotation may name one that
	// cannot be changed.
	Unpublished string
}

// Ready reports whether the last attempt to publish the cluster's own names succeeded.
func (s Status) Ready() bool { return s.Complete && s.Unpublished == "" }

// Status returns the current status.
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

// Round updates the zones that are out of date, unless the cluster is not known yet.
func (c *Controller) Round(ctx context.Context) {
	seen, version, complete := c.Source.Snapshot()
	if !complete {
		return
	}
	relisted := c.list(ctx)
	if c.states == nil {
		return // no zone is known yet
	}
	if relisted || version != c.version {
		c.version = version
		c.divide(c.Desired(seen))
	}
	for _, zone := range c.order() {
		s := c.states[zone]
		if s.appliedVersion == c.version || c.Now().Before(s.next) {
			continue
		}
		err := c.zone(ctx, zone, s)
		if ctx.Err() != nil {
			return
		}
		c.recordAttempt(zone.Name, &s.retry, err)
	}
	c.report(ctx)
}

// list lists the zones if the list is too old, and reports whether it did.
func (c *Controller) list(ctx context.Context) bool {
	if c.Now().Before(c.listRetry.next) {
		return false
	}
	all, err := c.Provider.Zones(ctx)
	if ctx.Err() != nil {
		return false
	}
	if err != nil {
		err = fmt.Errorf("list the zones: %w", err)
	}
	c.recordAttempt("", &c.listRetry, err)
	if err != nil {
		return false
	}
	c.listRetry.next = c.Now().Add(zonesAge)
	c.zones = PickZones(all, c.Specs)
	if c.states == nil {
		c.states = map[records.Zone]*state{}
	}
	return true
}

// divide assigns the wanted record sets to zones.
func (c *Controller) divide(d Desired) {
	c.want, c.outside, c.requesters = map[records.Zone][]records.Set{}, d.Refused, d.Requesters
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
		if c.zones.byName[z.Name] != z || !wanted && !s.read { // gone, or never read successfully
			c.dropZone(z)
		} else if s.have != nil {
			s.appliedVersion = 0
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status.Wanted = len(d.Sets)
}

// dropZone drops a zone that is gone or no longer selected.
func (c *Controller) dropZone(z records.Zone) {
	delete(c.states, z)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.status.Failing, z.Name)
}

// order returns the zones, starting with the zone of the cluster's own names.
func (c *Controller) order() []records.Zone {
	own, _ := c.zones.Of(c.Owner.Cluster)
	return slices.SortedFunc(maps.Keys(c.states), func(a, b records.Zone) int {
		switch {
		case a == own && b != own:
			return -1
		case b == own && a != own:
			return 1
		}
		return records.CompareKeys(records.Key{Name: a.Name, Type: a.ID}, records.Key{Name: b.Name, Type: b.ID})
	})
}

// zone updates a zone. Its content is read at first, after a failure, and before a
// name is claimed that the cluster did not have.
func (c *Controller) zone(ctx context.Context, zone records.Zone, s *state) (err error) {
	defer func() {
		if err != nil {
			s.have, s.appliedVersion = nil, 0
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
		c.recordApplied(zone, s, p.Changes)
	}
	s.refused, s.appliedVersion = p.Refused, c.version
	return nil
}

func (c *Controller) read(ctx context.Context, zone records.Zone, s *state) error {
	sets, err := c.Provider.Records(ctx, zone, nil)
	if err != nil {
		return fmt.Errorf("list the records of the zone %s: %w", zone.Name, err)
	}
	s.have, s.read = NewContent(sets), true
	return nil
}

func (c *Controller) recordApplied(zone records.Zone, s *state, changes []records.Change) {
	for _, change := range changes {
		s.have.Apply(change)
		for _, set := range change.Delete {
			if set.Type != records.TXT {
				c.Log.Info("withdrew", "zone", zone.Name, "name", set.Name, "type", set.Type, "values", set.Values)
			}
		}
		for _, set := range change.Upsert {
			if set.Type != records.TXT {
				c.Log.Info("published", "zone", zone.Name, "name", set.Name, "type", set.Type, "values", set.Values)
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status.Changed += len(changes)
}

// recordAttempt records the result of an attempt.
func (c *Controller) recordAttempt(zone string, r *retry, err error) {
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
	c.Log.Error("cannot update the zone; trying again", "zone", zone, "again", r.next.Sub(c.Now()), "error", err)
}

// report logs each refusal once, writes events about it, and stores the status of the round.
func (c *Controller) report(ctx context.Context) {
	all := slices.Clone(c.outside)
	agreed := true
	for _, s := range c.states {
		all = append(all, s.refused...)
		agreed = agreed && s.appliedVersion == c.version
	}
	now := map[Refusal]bool{}
	for _, r := range all {
		if now[r] = true; !c.logged[r] {
			c.Log.Warn("a name is not published", "name", r.Name, "why", r.Why, "namespace", r.Object.Namespace, "object", r.Object.Name)
		}
	}
	c.notify(ctx, all)
	c.logged = now
	lacking := c.unpublishedReason()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status.Unpublished = lacking
	c.status.Complete, c.status.Refused = true, len(now)
	if agreed {
		c.status.Synced = c.Now()
	}
}

// unpublishedReason returns why the cluster's own names are not published.
func (c *Controller) unpublishedReason() string {
	if err := c.Status().Failing[""]; err != nil {
		return err.Error()
	}
	for _, name := range []string{c.Owner.Cluster, records.Canonical(c.Owner.API)} {
		if name == "" {
			continue
		}
		zone, why := c.zones.Of(name)
		if why != "" {
			return name + ": " + why
		}
		if s := c.states[zone]; s == nil || s.appliedVersion != c.version {
			if err := c.Status().Failing[zone.Name]; err != nil {
				return err.Error()
			}
			return "the zone " + zone.Name + " does not agree with the cluster yet"
		}
	}
	return ""
}
