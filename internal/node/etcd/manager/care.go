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
	// statusPause is the minimum time between two statuses.
	statusPause = 5 * time.Second
)

// care carries out an action that a user requested; done is false for all other actions.
func (m *Manager) care(ctx context.Context, a etcd.Action) (done bool, err error) {
	switch a := a.(type) {
	case etcd.DefragmentMember:
		before, after, err := m.cfg.Etcd.Defragment(ctx, a.Member, a.Compact)
		if err != nil {
			return true, m.giveUp(ctx, a.Answer, err)
		}
		a.Answer.Members = append(a.Answer.Members, etcd.DefragmentResult{Name: a.Peer, Before: before, After: after})
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

// giveUp concludes a request that cannot be carried out, unless the error is temporary: then
// it is retried.
func (m *Manager) giveUp(ctx context.Context, a etcd.Answer, why error) error {
	if fault.Is(why, fault.NotYet) {
		return why
	}
	a.Done, a.Problem = true, why.Error()
	return errors.Join(why, etcd.WriteAnswer(ctx, m.cfg.Store, a))
}

// drill is the running or last drill. It does not keep its manager from its rounds,
// because the other managers must keep hearing from it.
type drill struct {
	mu      sync.Mutex
	request string
	outcome *etcd.DrillResult
}

// result returns the result of a request's drill; nil until it is known.
func (d *drill) result(request string) *etcd.DrillResult {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.request != request {
		return nil
	}
	return d.outcome
}

// beginDrill starts a drill, which stops when ctx ends.
func (m *Manager) beginDrill(ctx context.Context, r etcd.Request, peers []etcd.Peer) {
	d := &m.drill
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.request == r.ID || d.request != "" && d.outcome == nil {
		return // it is already running, or another one is
	}
	d.request, d.outcome = r.ID, nil
	at, ok := m.serving(peers)
	if !ok || m.cfg.Drill == nil {
		d.outcome = &etcd.DrillResult{Backup: r.Backup, Problem: "there is no member to compare it with"}
		return
	}
	m.drills.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, drillTime)
		defer cancel()
		found := m.cfg.Drill(ctx, r.Backup, at)
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.request == r.ID {
			d.outcome = &found
		}
	})
}

// serving returns a peer whose member is healthy.
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

// publishStatus publishes what the leader observes for users, in the store, if that is news.
func (m *Manager) publishStatus(ctx context.Context) {
	now, wanted := m.cfg.Now(), 0
	if spec := m.lead.control.Spec; spec != nil {
		wanted = spec.MemberCount
	}
	s := etcd.NewStatus(now, m.cfg.Self.ID, wanted, m.lead.lastNote, m.lead.members)
	if !s.IsNews(m.lastStatus) || now.Sub(m.statusWrittenAt).Abs() < statusPause {
		return
	}
	m.statusWrittenAt = now
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := etcd.WriteStatus(ctx, m.cfg.Store, s); err != nil {
		m.cfg.Log.Warn("cannot report the state of the cluster", "error", err)
		return
	}
	m.lastStatus = &s
}
