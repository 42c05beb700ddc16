package manager

import (
	"context"
	"errors"
	"sync"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd"
)

const (
	// drillTime is how long a drill may take.
	drillTime = 30 * time.Minute
	// statusPause is how soon a status may follow another.
	statusPause = 5 * time.Second
)

// care carries out an action that users ask for; done is false for any other.
func (m *Manager) care(ctx context.Context, a etcd.Action) (done bool, err error) {
	switch a := a.(type) {
	case etcd.DefragmentMember:
		before, after, err := m.cfg.Etcd.Defragment(ctx, a.Member, a.Compact)
		if err != nil {
			return true, m.giveUp(ctx, a.Answer, err)
		}
		a.Answer.Members = append(a.Answer.Members, etcd.Defragmented{Name: a.Peer, Before: before, After: after})
		return true, etcd.WriteAnswer(ctx, m.cfg.Store, a.Answer)
	case etcd.Disarm:
		ended, err := m.cfg.Etcd.Disarm(ctx, a.Compare)
		a.Answer.Disarmed = append(a.Answer.Disarmed, ended...)
		if err != nil {
			return true, m.giveUp(ctx, a.Answer, err)
		}
		a.Answer.Done = true
		return true, etcd.WriteAnswer(ctx, m.cfg.Store, a.Answer)
	case etcd.Conclude:
		return true, etcd.WriteAnswer(ctx, m.cfg.Store, a.Answer)
	}
	return false, nil
}

// giveUp ends a request that cannot be carried out, unless that may pass: then it is tried again.
func (m *Manager) giveUp(ctx context.Context, a etcd.Answer, why error) error {
	if fault.Is(why, fault.NotYet) {
		return why
	}
	a.Done, a.Problem = true, why.Error()
	return errors.Join(why, etcd.WriteAnswer(ctx, m.cfg.Store, a))
}

// drill is the one that runs, or ran last. It does not keep its manager, whom others
// want to hear of, from its rounds.
type drill struct {
	mu      sync.Mutex
	request string
	found   *etcd.Drilled
}

// result is what the drill of a request found out; nil until then.
func (d *drill) result(request string) *etcd.Drilled {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.request != request {
		return nil
	}
	return d.found
}

// beginDrill begins a drill, which ends with ctx.
func (m *Manager) beginDrill(ctx context.Context, r etcd.Request, peers []etcd.Peer) {
	d := &m.drill
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.request == r.ID || d.request != "" && d.found == nil {
		return // it is under way, or another is
	}
	d.request, d.found = r.ID, nil
	at, ok := m.serving(peers)
	if !ok || m.cfg.Drill == nil {
		d.found = &etcd.Drilled{Backup: r.Backup, Problem: "no member is there to compare it with"}
		return
	}
	m.drills.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, drillTime)
		defer cancel()
		found := m.cfg.Drill(ctx, r.Backup, at)
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.request == r.ID {
			d.found = &found
		}
	})
}

// serving is a peer whose member is well.
func (m *Manager) serving(peers []etcd.Peer) (etcd.Peer, bool) {
	for _, p := range peers {
		for _, x := range m.lead.members {
			if x.Name == p.ID && x.Healthy && !x.Learner {
				return p, true
			}
		}
	}
	return etcd.Peer{}, false
}

// tellStatus tells users, by the store, what the leader sees, when that is news.
func (m *Manager) tellStatus(ctx context.Context) {
	now, wanted := m.cfg.Now(), 0
	if spec := m.lead.control.Spec; spec != nil {
		wanted = spec.MemberCount
	}
	s := etcd.Tell(now, m.cfg.Self.ID, wanted, m.lead.note, m.lead.members)
	if !s.News(m.told) || now.Sub(m.toldAt).Abs() < statusPause {
		return
	}
	m.toldAt = now
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := etcd.WriteStatus(ctx, m.cfg.Store, s); err != nil {
		m.cfg.Log.Warn("users are not told how the cluster is", "error", err)
		return
	}
	m.told = &s
}
