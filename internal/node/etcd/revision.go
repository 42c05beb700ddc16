package etcd

// API servers and controllers cache what they read, and assume that a higher revision is younger.
// So a cluster that begins from a backup begins above every revision that was ever served, of
// which not all are known: the record is behind, and there may be nobody to ask during a restore.
const (
	// margin is how far above the highest known revision a restored cluster begins. At 10 000
	// writes a second, more than etcd does, it covers a day without a record; and restores exhaust
	// revisions, of 63 bits, after nine thousand million.
	margin = 1_000_000_000
	// recordEvery is how many revisions may be served until the record says so.
	recordEvery = 1_000_000
)

// Leap is by how much the revision of a snapshot is raised when a cluster begins from
// it, where served is the highest revision that clients are known to have seen.
func Leap(snapshot, served int64) int64 { return max(served-snapshot, 0) + margin }

// served is the highest revision that is known to have been served.
func (s *situation) served() int64 {
	var out int64
	if s.Record != nil {
		out = s.Record.Revision
	}
	for _, m := range s.Members {
		out = max(out, m.Revision)
	}
	return out
}

// revisionDue reports whether the record is so far behind that it has to be written again.
func (s *situation) revisionDue() bool {
	return s.Record != nil && s.Record.Phase == Running && s.served()-s.Record.Revision >= recordEvery
}
