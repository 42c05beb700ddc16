package balance

import (
	"slices"
	"time"
)

// The policy is pure: what was heard of backends, and the time, decide where new
// connections go and what becomes of open ones.
const (
	// hesitation is how long a backend may owe an answer before others are preferred.
	// A new connection would wait as the check does.
	hesitation = 300 * time.Millisecond
	// stall is how long a backend may owe an answer before it is called silent.
	stall = 800 * time.Millisecond
	// haste is how long a backend may owe an answer before its connections are cut, so that
	// their clients go elsewhere, if the others have outpaced it: an HTTP/2 client notices by
	// itself only after 45 s (client-go: a ping after 30 s, which may take 15 s).
	haste = 400 * time.Millisecond
	// laps is how many questions that were asked later the others must have answered
	// meanwhile. On a host that has too much to do they answer late, too, and the count takes longer.
	laps = 3
	// A backend that answers within falseAlarm of being outpaced had not stalled. From then on
	// it may owe an answer twice as long, up to mostPatience doublings, and every calmTime
	// without a false alarm takes one back. Where two have raised some the host is slow, and
	// all are given longer.
	falseAlarm   = 2 * time.Second
	mostPatience = 2
	calmTime     = time.Minute
	// probation is how long a cut counts against the next one at least, and how long one that
	// was cut is silent before it counts as down.
	probation = 5 * time.Second
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
	// lately is when the questions of its latest answers were asked, the oldest first.
	lately [laps]time.Time
	// outpaced is since when others have outpaced it while it owes an answer; zero: they have not.
	outpaced time.Time
	// wasCut is when its connections were last cut because of that; zero: never.
	wasCut time.Time
	// patience is how many times the time that it may owe an answer is doubled, and learned
	// when that last changed.
	patience int
	learned  time.Time
	// drains is since when its connections have been drained; zero: they are not.
	drains time.Time
	// leaves says that it should no longer serve, whatever it answers itself.
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
	copy(r.lately[:], r.lately[1:])
	r.lately[laps-1] = r.asked
	settled := w != unready || !r.silent(now)
	if w == ready && !r.outpaced.IsZero() && now.Sub(r.outpaced) < falseAlarm {
		r.patience, r.learned = min(r.patience+1, mostPatience), now
	}
	r = r.hear(w, now)
	if settled {
		r.asked, r.outpaced = time.Time{}, time.Time{}
	}
	return r
}

// hear notes a word that was not asked for, as when a connection is refused. For a backend that
// was silent for too long, the word begins to count now.
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

func (r record) silent(now time.Time) bool { return r.owes(now) >= stall || !r.outpaced.IsZero() }

// up reports whether the backend counts among those of which most must not be cut: its
// machine takes connections, and it has not been silent for long since it was cut.
func (r record) up(now time.Time) bool {
	longCut := !r.asked.IsZero() && r.wasCut.After(r.asked) && now.Sub(r.wasCut) >= probation
	return r.word != gone && r.word != closed && !longCut
}

// outpaces reports whether the backend has answered questions that were asked later than the
// one to which another owes the answer, and does not owe one itself.
func (r record) outpaces(other record, now time.Time) bool {
	return !other.asked.IsZero() && !r.lately[0].Before(other.asked) && r.owes(now) < hesitation
}

// onProbation reports whether the backend was cut, and either that was a moment ago or it has
// not proven since that it is well.
func (r record) onProbation(now time.Time) bool {
	well := r.sound(now) && now.Sub(r.since) >= proof
	return r.up(now) && !r.wasCut.IsZero() && (now.Sub(r.wasCut) < probation || !well)
}

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

// calm takes back what was learned of false alarms, as time passes.
func (r record) calm(now time.Time) record {
	if r.patience > 0 && now.Sub(r.learned) >= calmTime {
		r.patience, r.learned = r.patience-1, now
	}
	return r
}

// limit is how long a backend may owe an answer: as it has learned itself, or as two have.
func limit(records []record, i int) time.Duration {
	var all []int
	for _, r := range records {
		all = append(all, r.patience)
	}
	slices.Sort(all)
	return haste << max(records[i].patience, all[max(0, len(all)-2)])
}

// judge says what becomes of each backend's open connections, and returns the records
// with that noted. Connections are kept wherever no other backend would serve
// their clients better. Those of a silent backend are cut only while most of the others are
// quick, and at most half of the backends are cut within a probation: when most are late
// the host is, and clients that all connect again are the last thing it needs.
func judge(records []record, now time.Time) ([]record, []fate) {
	fates := make([]fate, len(records))
	out := slices.Clone(records)
	for i := range out {
		r := &out[i]
		*r = r.calm(now)
		elsewhere := false
		for j, other := range out {
			elsewhere = elsewhere || j != i && other.sound(now)
		}
		refuses := r.word == closed || r.word == unready || r.leaves
		switch {
		case !elsewhere || !refuses:
			r.drains = time.Time{}
		case r.drains.IsZero():
			r.drains = now
		}
		if r.outpaced.IsZero() && r.owes(now) >= limit(out, i) && outpaced(out, i, now) {
			r.outpaced = now
		}
		stalls := elsewhere && !r.outpaced.IsZero() && (!r.wasCut.Before(r.outpaced) || affordable(out, i, now))
		if stalls && r.wasCut.Before(r.outpaced) {
			r.wasCut = now
		}
		switch {
		case r.word == gone, stalls, !r.drains.IsZero() && now.Sub(r.drains) >= drainTime:
			fates[i] = cut
		case !r.drains.IsZero():
			fates[i] = drain
		}
	}
	return out, fates
}

// outpaced reports whether most of the backends are quicker than one. Of two that is the other.
func outpaced(records []record, i int, now time.Time) bool {
	up, quicker := 0, 0
	for j, r := range records {
		if r.up(now) || j == i {
			up++
		}
		if j != i && r.up(now) && r.outpaces(records[i], now) {
			quicker++
		}
	}
	return quicker > 0 && 2*quicker >= up
}

// affordable reports whether one more backend can be cut, and most or half of them are not.
func affordable(records []record, i int, now time.Time) bool {
	up, lost := 0, 0
	for j, r := range records {
		if r.up(now) || j == i {
			up++
		}
		if j == i || r.onProbation(now) {
			lost++
		}
	}
	return 2*lost <= up
}

// urgent reports whether a backend is late: how quick the others are is asked sooner then.
func urgent(records []record, now time.Time) bool {
	return slices.ContainsFunc(records, func(r record) bool {
		return r.owes(now) >= hesitation/2 && r.outpaced.IsZero() && r.up(now)
	})
}
