package manager

import (
	"time"

	"kops.local/kops/internal/node/etcd"
)

// Status is a manager's report about itself.
type Status struct {
	// Leads is set if this manager leads the others.
	Leads bool
	// Peers is how many managers were heard from recently, including this one.
	Peers int
	// Local is the etcd of this machine.
	Local etcd.State
	// Failures counts failed actions and observations since startup.
	Failures int64
	// Backups counts those that this manager has taken, or failed to take, since startup.
	Backups struct{ Taken, Failed int64 }
	// Took is how long the last of them took; 0 for none.
	Took time.Duration

	// Only a leader sets the following fields; they are empty elsewhere.

	// Wanted is the number of voting members in the spec; 0 for none.
	Wanted int
	// Members are etcd's; nil if no majority of them answers.
	Members []etcd.Member
	// Waits is set if something keeps the cluster from matching its spec.
	Waits bool
	// LastBackup is when the latest backup was taken, by any manager, and BackupSize its size in
	// the store, in bytes; zero if there is none, or it is not known.
	LastBackup time.Time
	BackupSize int64
}

// Status returns the status after the last tick. It may be called from any goroutine.
func (m *Manager) Status() Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.status
}

// publish updates the status.
func (m *Manager) publish() {
	peers, local := len(m.healthy()), m.cfg.Local.State()
	s := Status{Leads: m.lead.won, Peers: peers, Local: local, Failures: m.failed, Took: m.backupDuration}
	s.Backups.Taken, s.Backups.Failed = m.backupsTaken, m.backupsFailed
	if s.Leads {
		s.Members, s.Waits, s.LastBackup, s.BackupSize = m.lead.members, m.lead.lastNote != "", m.lead.lastBackup, m.lead.backupSize
		if spec := m.lead.control.Spec; spec != nil {
			s.Wanted = spec.MemberCount
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.status = s
}
