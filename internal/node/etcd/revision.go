package etcd

// API servers and controllers cache what they read, and assume that a higher revision is newer.
// So a cluster that is restored from a backup begins above every revision that was ever served,
// not all of which are known: the record is behind, and during a restore there may be no member
// to ask.
const (
	// margin is how far above the highest known revision a restored cluster begins. At 10 000
	// writes a second, more than etcd performs, it covers a day without an update of the record;
	// and restores exhaust the 63 bits of revisions only after nine thousand million of them.
	margin = 1_000_000_000
	// recordEvery is how many revisions may be served until the record is updated.
	recordEvery = 1_000_000
)

// RevisionIncrease returns by how much the revision of a snapshot is raised when a cluster is
// restored from it; served is the highest revision that clients are known to have
// seen.
func RevisionIncrease(snapshot, served int64) int64 { return max(served-snapshot, 0) + margin }

// servedRevision returns the highest revision that is known to have been served.
func (s *situation) servedRevision() int64 {
	var out int64
	if s.Record != nil {
		out = s.Record.Revision
	}
	for _, m := range s.Members {
		out = max(out, m.Revision)
	}
	return out
}

// revisionDue reports whether the record is so far behind that it must be written again.
func (s *situation) revisionDue() bool {
	return s.Record != nil && s.Record.Phase == Running && s.servedRevision()-s.Record.Revision >= recordEvery
}
