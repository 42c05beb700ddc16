package balance

import "time"

// The policy is pure: what was heard of backends, and the time, decide where new
// connections go and what becomes of open ones.
const (
	// hesitation is how long a backend may owe an answer before others are preferred.
	// A new connection would wait as the check does.
	hesitation = 300 * time.Millisecond
	// stall is how long a backend may owe an answer before its connections are cut, so
	// that their clients go elsewhere: an HTTP/2 client notices by itself only after
	// 45 s (client-go: a ping after 30 s, which may take 15 s).
	stall = 800 * time.Millisecond
	// leeway is how many times as long as the others took for their latest answers one may
	// owe its own, and longestStall is the most it may: what makes all late is the host, and
	// clients that all come anew would make them later.
	leeway, longestStall = 4, 2 * stall
	// proof is how long one that was not ready must have been so without a break before it
	// is preferred again.
	proof = time.Second
	// drainTime is how long connections of a backend that takes no more may go on. An API
	// server that ends answers within this time what it was asked, and one whose etcd is away
	// answers nothing: nobody is to wait for that.
	drainTime = 2 * time.Second
)

// word is the last that was heard of a backend.
type word int

const (
	unasked word = iota // nothing yet
	gone                // there is no such machine: its connections are dead, too
	closed              // the machine refuses connections: a process that ended has lost its own already
	unready             // it answers that it should get no more
	ready               // it answers that it is ready
)

// record is what is known of a backend.
type record struct {
	word word
	// since is when it began to say so; zero: it said so when it was first heard.
	since time.Time
	// asked is since when it has owed an answer; zero: it owes none. To say, after long, that
	// it is not ready does not settle this: what its clients wait for stalls as well.
	asked time.Time
	// took is how long its latest answers took: the longest, less a quarter with each after it.
	took time.Duration
	// drains is since when its connections have been drained; zero: they are not.
	drains time.Time
	// leaves says that it is to serve no longer, whatever it answers itself.
	leaves bool
}

// ask notes that a question is under way.
func (r record) ask(now time.Time) record {
	if r.asked.IsZero() {
		r.asked = now
	}
	return r
}

// answer notes the word that a question got.
func (r record) answer(w word, now time.Time) record {
	r.took = max(min(r.owes(now), longestStall), r.took*3/4)
	settled := w != unready || !r.silent(now)
	r = r.hear(w, now)
	if settled {
		r.asked = time.Time{}
	}
	return r
}

// hear notes a word that was not asked for, as when a connection is refused. A backend
// that was silent for too long begins to say it anew.
func (r record) hear(w word, now time.Time) record {
	if r.word != w || r.silent(now) {
		if r.since = now; r.word == unasked && !r.silent(now) {
			r.since = time.Time{}
		}
	}
	r.word = w
	return r
}

// owes is how long the backend has owed an answer.
func (r record) owes(now time.Time) time.Duration {
	if r.asked.IsZero() {
		return 0
	}
	return now.Sub(r.asked)
}

func (r record) silent(now time.Time) bool { return r.owes(now) >= stall }

// sound reports whether connections would do better here than where they stall.
func (r record) sound(now time.Time) bool {
	return r.word == ready && r.owes(now) < hesitation && !r.leaves
}

// rank orders backends by how good a choice each is, the best first. Even the worst
// is a choice where there is no other: what it answers to the client is the truth.
func (r record) rank(now time.Time) int {
	switch {
	case r.word == gone:
		return 5
	case r.word == closed:
		return 4
	case r.silent(now):
		return 3
	case r.word != ready, r.leaves:
		return 2
	case !r.sound(now), now.Sub(r.since) < proof:
		return 1
	}
	return 0
}

// choose returns the best backend that is not left out, the one after the other
// from next on among equals; -1 if all are left out.
func choose(records []record, next int, leftOut func(int) bool, now time.Time) int {
	best := -1
	for n := range records {
		i := (next + n) % len(records)
		if !leftOut(i) && (best < 0 || records[i].rank(now) < records[best].rank(now)) {
			best = i
		}
	}
	return best
}

// fate is what becomes of a backend's open connections.
type fate int

const (
	keep  fate = iota
	drain      // each ends when it is idle
	cut        // all end at once
)

// judge says what becomes of each backend's open connections, and returns the records
// with that noted. Connections are kept wherever no other backend would serve
// their clients better: on a host that has too much to do all backends are
// late at times, and clients that all come anew are the last thing it needs.
func judge(records []record, now time.Time) ([]record, []fate) {
	fates := make([]fate, len(records))
	out := make([]record, len(records))
	for i, r := range records {
		elsewhere, late := false, stall
		for j, other := range records {
			if j != i && other.sound(now) {
				elsewhere, late = true, max(late, min(leeway*other.took, longestStall))
			}
		}
		refuses := r.word == closed || r.word == unready || r.leaves
		switch {
		case !elsewhere || !refuses:
			r.drains = time.Time{}
		case r.drains.IsZero():
			r.drains = now
		}
		switch {
		case r.word == gone, elsewhere && r.owes(now) >= late, !r.drains.IsZero() && now.Sub(r.drains) >= drainTime:
			fates[i] = cut
		case !r.drains.IsZero():
			fates[i] = drain
		}
		out[i] = r
	}
	return out, fates
}
