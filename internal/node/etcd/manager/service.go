package manager

import (
	"context"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/node/etcd/peer"
)

// Hello implements peer.Service.
func (m *Manager) Hello(_ context.Context, from peer.Hello) (peer.Hello, error) {
	if from.Cluster != m.cfg.Cluster {
		return peer.Hello{}, fault.New(fault.Denied, "this is a manager of %s, not of %s", m.cfg.Cluster, from.Cluster)
	}
	m.recordHello(from, "")
	return m.hello(), nil
}

// Claim implements peer.Service. It waits for an order in progress, so that no
// order of an earlier leader is being carried out once it has accepted the claim.
func (m *Manager) Claim(ctx context.Context, c etcd.Claim) (etcd.Peer, error) {
	m.orders.Lock()
	defer m.orders.Unlock()
	if err := ctx.Err(); err != nil { // the caller no longer waits for the answer, and may lead by another claim
		return etcd.Peer{}, fault.Wrap(fault.Lost, err, "")
	}
	var ids []string
	for _, s := range m.healthy() {
		ids = append(ids, s.ID)
	}
	if err := c.Check(ids); err != nil {
		return etcd.Peer{}, fault.Wrap(fault.Conflict, err, "")
	}
	m.mu.Lock()
	m.agreed = c.Token
	m.mu.Unlock()
	return m.self(), nil
}

// Order implements peer.Service. New data are begun only for the cluster that the store's record
// names, even if the leader orders otherwise.
func (m *Manager) Order(ctx context.Context, o peer.Order) error {
	m.orders.Lock()
	defer m.orders.Unlock()
	m.mu.Lock()
	agreed := m.agreed
	m.mu.Unlock()
	if o.Leadership == "" || o.Leadership != agreed {
		return fault.New(fault.Conflict, "%s follows another leader now", m.cfg.Self.ID)
	}
	switch {
	case o.Stop != nil:
		return m.cfg.Local.Stop(ctx)
	case o.Run == nil:
		return fault.New(fault.Permanent, "an order without content")
	case o.Run.Fresh:
		if err := m.checkOrder(ctx, *o.Run); err != nil {
			return err
		}
	}
	return m.cfg.Local.Run(ctx, *o.Run)
}

// checkOrder rejects fresh data for another cluster than the store's.
func (m *Manager) checkOrder(ctx context.Context, o etcd.Run) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	record, err := etcd.ReadRecord(ctx, m.cfg.Store)
	if err != nil {
		return err
	}
	if record == nil || record.Token != o.Token {
		return fault.New(fault.Conflict, "the store does not name cluster %s", o.Token)
	}
	return nil
}

// fence stops the etcd of a cluster that is no longer valid, even if there is no leader. An etcd
// that ran before this manager is started only if its cluster is known to be valid, or if the
// store could not be read for a while. If the store could not be read, it is read again in the
// next round.
func (m *Manager) fence(ctx context.Context) {
	now := m.cfg.Now()
	if m.resumed && now.Sub(m.fenced) < m.cfg.Times.Control {
		return
	}
	state := m.cfg.Local.State()
	other, err := m.replacement(ctx, state)
	switch {
	case err == nil && other != "" && m.resumed:
		err = m.stopReplaced(ctx, state, other)
	case err == nil && other != "":
		m.logBarred(state.Token, other)
		return
	}
	if err == nil {
		m.fenced, m.barredBy = now, ""
	} else {
		m.cfg.Log.Warn("cannot tell whether this cluster is still the current one", "error", err)
		if m.barredBy != "" || now.Sub(m.started) < m.cfg.Times.Control {
			return
		}
	}
	if m.resumed {
		return
	}
	m.orders.Lock()
	defer m.orders.Unlock()
	if err := m.cfg.Local.Resume(ctx); err != nil {
		m.cfg.Log.Error("etcd cannot continue", "error", err)
		return
	}
	m.resumed = true
}

// replacement returns the cluster that the store names, if it differs from the data's; otherwise
// "". Orders and claims do not wait for the store meanwhile.
func (m *Manager) replacement(ctx context.Context, state etcd.State) (string, error) {
	if state.Token == "" || state.Stopped {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	record, err := etcd.ReadRecord(ctx, m.cfg.Store)
	if err != nil || record == nil || record.Token == state.Token {
		return "", err
	}
	return record.Token, nil
}

// logBarred logs, once, that etcd is not started. It will be started if the store later
// names its cluster, or none: the disk may have been used elsewhere since the
// record was written, and a user who knows that can remove the record.
func (m *Manager) logBarred(token, other string) {
	if m.barredBy != other {
		m.barredBy = other
		m.cfg.Log.Error("etcd is not started: the store names another cluster than the local data", "here", token, "store", other,
			"remedy", "not needed if that other cluster runs, because this member then copies its data; otherwise, "+etcd.OtherClusterRemedy)
	}
}

func (m *Manager) stopReplaced(ctx context.Context, state etcd.State, by string) error {
	m.orders.Lock()
	defer m.orders.Unlock()
	if m.cfg.Local.State().Token != state.Token { // an order has replaced it meanwhile
		return nil
	}
	m.cfg.Log.Warn("this cluster was replaced by another; etcd is stopped", "cluster", state.Token, "by", by)
	return m.cfg.Local.Stop(ctx)
}
