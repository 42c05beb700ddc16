package manager

import (
	"time"

	"kops.local/kops/internal/node/etcd"
)

// Status is a manager's report about itself.
type Status struct {
	// Leads says that this manager leads the others.
	Leads bool
	// Peers is how many managers were heard of lately, this one included.
	Peers int
	// Local is the etcd of this machine.
	Local etcd.State
	// Failures counts failed actions and observations since the start.
	Failures int64
	// Backups are those that this manager has taken since its start, or tried to.
	Backups struct{ Taken, Failed int64 }
	// Took is how long the last of them took; 0 for none.
	Took time.Duration

	// Only a leader knows the following fields; they are empty elsewhere.

	// Wanted is the number of voting members that the spec asks for; 0 for none.
	Wanted int
	// Members are etcd's; nil when no majority of them answers.
	Members []etcd.Member
	// Waits says that something stands in the way of what the cluster shall be.
	Waits bool
	// LastBackup is when the youngest backup was taken, by any manager, and BackupSize its size in
	// the store, in bytes; zero when there is none, or it is not known.
	LastBackup time.Time
	BackupSize int64
}

// Status returns what was so after the last tick. It may be called by any goroutine.
func (m *Manager) Status() Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.status
}

// publish makes what is so now the status.
func (m *Manager) publish() {
	peers, local := len(m.healthy()), m.cfg.Local.State()
	s := Status{Leads: m.lead.won, Peers: peers, Local: local, Failures: m.failed, Took: m.took}
	s.Backups.Taken, s.Backups.Failed = m.taken, m.untaken
	if s.Leads {
		s.Members, s.Waits, s.LastBackup, s.BackupSize = m.lead.members, m.lead.note != "", m.lead.lastBackup, m.lead.backupSize
		if spec := m.lead.control.Spec; spec != nil {
			s.Wanted = spec.MemberCount
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.status = s
}
