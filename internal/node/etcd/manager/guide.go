package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/node/etcd/peer"
)

// leaderTick is the leader's part of a tick: observe, decide, act.
func (m *Manager) leaderTick(ctx context.Context, peers []etcd.Peer) time.Duration {
	o, err := m.observe(ctx, peers)
	if err != nil {
		m.failed++
		m.cfg.Log.Warn("the cluster cannot be observed", "error", err)
		return m.shortPause()
	}
	var d etcd.Decision
	m.lead.memory, d = etcd.Step(m.cfg.Policy, m.lead.memory, o)
	m.logObstacle(d)
	m.publishStatus(ctx)
	err = m.act(ctx, d, peers)
	m.lead.failing = err != nil && !isBackup(d)
	if err != nil {
		if len(d.Actions) > 1 || !fault.Is(err, fault.NotYet) { // otherwise nothing was changed
			m.lead.controlled = time.Time{}
		}
		if fault.Is(err, fault.NotYet) {
			m.cfg.Log.Debug("an action must wait", "error", err)
			return m.cfg.Times.Soon
		}
		m.failed++
		m.lead.failures++
		pause := m.failurePause()
		m.cfg.Log.Warn("an action failed", "error", err, "pause", pause)
		return pause
	}
	m.lead.failures = 0
	if len(d.Actions) > 0 { // a leader that only waits need not read the store all the time
		m.lead.controlled = time.Time{}
	}
	switch {
	case d.Soon:
		return m.cfg.Times.Soon
	case len(d.Actions) > 0:
		return 0
	}
	return m.pause()
}

// isBackup reports whether a decision is to take a backup.
func isBackup(d etcd.Decision) bool {
	return slices.ContainsFunc(d.Actions, func(a etcd.Action) bool { _, is := a.(etcd.TakeBackup); return is })
}

// failurePause returns the pause after a failure; it doubles with each, up to a minute.
func (m *Manager) failurePause() time.Duration {
	return min(m.shortPause()<<min(m.lead.failures-1, 10), time.Minute)
}

// act carries out a decision: orders to several peers in parallel, everything else
// in sequence, up to the first failure that is not temporary.
func (m *Manager) act(ctx context.Context, d etcd.Decision, peers []etcd.Peer) error {
	m.logActions(d)
	if d.Together {
		errs := make([]error, len(d.Actions))
		m.cfg.Each(len(d.Actions), func(i int) { errs[i] = m.do(ctx, d.Actions[i], peers) })
		return errors.Join(errs...)
	}
	var waits error
	for _, a := range d.Actions {
		err := m.do(ctx, a, peers)
		if err != nil && !fault.Is(err, fault.NotYet) {
			return err
		}
		waits = errors.Join(waits, err)
	}
	return waits
}

// logActions logs the actions; it does not log the same ones twice in a row.
func (m *Manager) logActions(d etcd.Decision) {
	text := fmt.Sprint(d.Actions)
	if text == m.lead.loggedNote {
		return
	}
	m.lead.loggedNote = text
	for _, a := range d.Actions {
		m.cfg.Log.Info("the leader acts", "rule", d.Rule, "action", a.String())
	}
}

// logObstacle logs a new obstacle.
func (m *Manager) logObstacle(d etcd.Decision) {
	if d.Note == m.lead.lastNote {
		return
	}
	m.lead.lastNote = d.Note
	if d.Note != "" {
		m.cfg.Log.Info("the leader waits", "rule", d.Rule, "note", d.Note)
	} else if d.Rule == "" {
		m.cfg.Log.Info("the cluster matches its spec")
	}
}

// observe collects everything that the decision depends on. While nothing happens,
// the store is read again only from time to time; its record is replaced only if
// unchanged anyway.
func (m *Manager) observe(ctx context.Context, peers []etcd.Peer) (etcd.Observed, error) {
	now := m.cfg.Now()
	if m.lead.controlled.IsZero() || now.Sub(m.lead.controlled) >= m.cfg.Times.Control {
		control, err := m.readControl(ctx)
		if err != nil {
			return etcd.Observed{}, err
		}
		m.lead.control, m.lead.controlled = control, now
	}
	if m.lead.backupSeen.IsZero() { // only the leader takes backups
		latest, facts, err := m.latest(ctx)
		if err != nil {
			return etcd.Observed{}, err
		}
		m.lead.lastBackup, m.lead.backupSeen = latest, now
		if facts != nil {
			m.lead.backupEmpty, m.lead.backupSize = facts.Keys == 0, facts.Size
		}
	}
	c := m.lead.control
	o := etcd.Observed{Now: now, Failing: m.lead.failing, Token: m.cfg.Token(), Spec: c.Spec, Created: c.Created, Record: c.Record, Seats: c.Seats, Commands: c.Commands, Refused: c.Refused,
		BackupAfter: c.BackupAfter, Peers: peers, LastBackup: m.lead.lastBackup, BackupSeen: m.lead.backupSeen, BackupEmpty: m.lead.backupEmpty}
	o.Request, o.Answer = c.Request, c.Answer
	if c.Request != nil {
		o.DrillResult = m.drill.result(c.Request.ID)
	}
	if token := tokenOf(c.Record, peers); token != "" {
		o.Members = m.cfg.Etcd.ListMembers(ctx, token, peers)
	}
	m.lead.members = o.Members
	return o, nil
}

// readControl reads the control objects, and adds what was found out about the commands.
func (m *Manager) readControl(ctx context.Context) (etcd.Control, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	c, err := etcd.ReadControl(ctx, m.cfg.Store)
	for i, command := range c.Commands {
		c.Commands[i].Unusable = cmp.Or(command.Unusable, m.lead.unusable[command.Key])
	}
	return c, err
}

func (m *Manager) latest(ctx context.Context) (time.Time, *etcd.Facts, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return m.cfg.Archive.Latest(ctx)
}

// tokenOf returns the token of the cluster to look at: the record's, or without a record the data's.
func tokenOf(r *etcd.Record, peers []etcd.Peer) string {
	if r != nil {
		return r.Token
	}
	for _, p := range peers {
		if p.State.Token != "" {
			return p.State.Token
		}
	}
	return ""
}

// limit returns how long an action may take.
func limit(a etcd.Action) time.Duration {
	switch a.(type) {
	case etcd.Run, etcd.Stop:
		return orderTimeout
	case etcd.SaveRecord, etcd.TakeBackup, etcd.DefragmentMember, etcd.Disarm:
		return transferTimeout
	}
	return storeTimeout
}

// verify ensures that a damaged backup does not replace the cluster that still runs.
func (m *Manager) verify(ctx context.Context, r etcd.Record) error {
	if r.Phase != etcd.Forming || r.Backup == "" {
		return nil
	}
	_, err := m.cfg.Archive.Verify(ctx, r.Backup)
	if etcd.IsUnusable(err) {
		if m.lead.unusable == nil {
			m.lead.unusable = map[string]string{}
		}
		m.lead.unusable[r.Command] = err.Error()
	}
	return err
}

// do carries out one action.
func (m *Manager) do(ctx context.Context, a etcd.Action, peers []etcd.Peer) error {
	if b, ok := a.(etcd.BeginDrill); ok { // it continues in the background
		m.beginDrill(ctx, b.Request, peers)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, limit(a))
	defer cancel()
	switch a := a.(type) {
	case etcd.SaveRecord:
		if err := m.verify(ctx, a.Record); err != nil {
			return err
		}
		return m.lead.control.SaveRecord(ctx, m.cfg.Store, a.Record)
	case etcd.MarkCreated:
		return etcd.WriteCreated(ctx, m.cfg.Store, m.cfg.Now())
	case etcd.SaveSpec:
		return etcd.WriteSpec(ctx, m.cfg.Store, a.Spec)
	case etcd.FinishCommand:
		return etcd.DeleteCommand(ctx, m.cfg.Store, a.Key)
	case etcd.SaveRefusal:
		return etcd.WriteRefusal(ctx, m.cfg.Store, a.Refusal)
	case etcd.ForgetRefusal:
		return etcd.DeleteRefusal(ctx, m.cfg.Store)
	case etcd.Run:
		return m.order(ctx, peers, a.Peer, peer.Order{Leadership: m.lead.token, Run: &a})
	case etcd.Stop:
		return m.order(ctx, peers, a.Peer, peer.Order{Leadership: m.lead.token, Stop: &a})
	case etcd.TakeBackup:
		return m.backUp(ctx, a.Spec)
	}
	if done, err := m.care(ctx, a); done {
		return err
	}
	return m.cfg.Etcd.Change(ctx, a)
}

func (m *Manager) order(ctx context.Context, peers []etcd.Peer, id string, o peer.Order) error {
	i := slices.IndexFunc(peers, func(p etcd.Peer) bool { return p.ID == id })
	if i < 0 {
		return fmt.Errorf("peer %s is not available", id)
	}
	return m.serviceOf(etcd.Sighting{ID: id, Endpoint: peers[i].Endpoint}).Order(ctx, o)
}

// backUp takes a backup and removes those that are no longer kept.
func (m *Manager) backUp(ctx context.Context, spec etcd.Spec) error {
	start := m.cfg.Now()
	// a backup with a time before the founding would count as the previous cluster's
	b, facts, err := m.cfg.Archive.Take(ctx, m.cfg.Etcd, spec, time.Unix(m.lead.control.Record.Founded, 0))
	if err != nil {
		m.backupsFailed++
		return err
	}
	m.backupsTaken++
	m.lead.lastBackup, m.lead.backupSeen, m.lead.backupEmpty, m.lead.backupSize = b.Time, m.cfg.Now(), facts.Keys == 0, facts.Size
	m.backupDuration = m.lead.backupSeen.Sub(start)
	removed, err := m.cfg.Archive.Clean(ctx)
	m.cfg.Log.Info("a backup was taken", "name", b.Name, "keys", facts.Keys, "revision", facts.Revision, "removed", removed)
	if err != nil {
		m.cfg.Log.Warn("cannot remove old backups", "error", err)
	}
	return nil
}

// updateHosts publishes the peers' addresses. For a peer that is not heard from, it
// uses the address that discovery found: its manager may be another program, whose
// etcd must be reachable as well.
func (m *Manager) updateHosts(ctx context.Context) {
	if m.cfg.Hosts == nil {
		return
	}
	at := map[string]string{}
	for _, s := range slices.Concat(m.healthy(), m.known, m.allPeers()) {
		if at[s.ID] == "" {
			at[s.ID] = s.Endpoint
		}
	}
	delete(at, "") // found without a name
	ctx, cancel := context.WithTimeout(ctx, discoverTimeout)
	defer cancel()
	if err := m.cfg.Hosts(ctx, at); err != nil {
		m.cfg.Log.Warn("cannot write the names of the peers", "error", err)
	}
}
