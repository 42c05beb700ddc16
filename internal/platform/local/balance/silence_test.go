package balance

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// never stands for an answer that does not come.
const never = time.Hour

// stallScenario simulates a host whose backends are ready and answer with the given delays.
type stallScenario struct {
	// takes returns how long backend i takes for an answer requested at the time after the start.
	takes func(i int, after time.Duration) time.Duration
	// givesUp is how long backends wait for what they need before they answer that they are not ready; 0:
	// forever.
	givesUp time.Duration
	// cuts are the times at which the connections of each backend were cut.
	cuts [][]time.Duration
}

// run simulates n backends for some time.
func (c *stallScenario) run(n int, whole time.Duration) {
	start := time.Unix(1e9, 0)
	records := make([]record, n)
	due, asked := make([]time.Duration, n), make([]time.Duration, n) // due 0: no check is in progress
	answers := make([]status, n)
	c.cuts = make([][]time.Duration, n)
	hurry := false
	for at := step; at < whole; at += step {
		now := start.Add(at)
		for i := range records {
			switch pause := at - asked[i]; {
			case due[i] == 0 && (pause >= interval || asked[i] == 0 || hurry):
				asked[i], due[i], answers[i] = at, at+c.takes(i, at), ready
				if c.givesUp > 0 && due[i]-at > c.givesUp {
					due[i], answers[i] = at+c.givesUp, notReady
				}
				records[i] = records[i].startCheck(now)
			case due[i] == 0:
			case at >= due[i]:
				due[i] = 0
				records[i] = records[i].finishCheck(answers[i], now)
			case pause >= checkTime:
				due[i] = 0
			}
		}
		hurry = false
		if at%tick != 0 {
			continue
		}
		records, _ = decide(records, now)
		for i, r := range records {
			if r.lastCut.Equal(now) {
				c.cuts[i] = append(c.cuts[i], at)
			}
		}
		hurry = isUrgent(records, now)
	}
}

// quick is how long an answer takes on an idle host.
const quick = 10 * time.Millisecond

// TestOneThatStallsAmongQuickOnesIsCutSoon: as when its etcd is stopped, with and without
// others that are late until another leader is elected.
func TestOneThatStallsAmongQuickOnesIsCutSoon(t *testing.T) {
	for _, givesUp := range []time.Duration{0, 400 * time.Millisecond} {
		t.Run("gives up after "+givesUp.String(), func(t *testing.T) { oneStalls(t, givesUp) })
	}
}

func oneStalls(t *testing.T, givesUp time.Duration) {
	const fault = 3 * time.Second
	for _, n := range []int{2, 3, 5} {
		for _, election := range []time.Duration{0, 600 * time.Millisecond} {
			for phase := time.Duration(0); phase < interval; phase += 3 * step {
				begin := fault + phase
				c := stallScenario{givesUp: givesUp, takes: func(i int, at time.Duration) time.Duration {
					switch {
					case at < begin || i > 0 && at >= begin+election:
						return quick
					case i > 0:
						return begin + election - at
					}
					return never
				}}
				c.run(n, begin+4*time.Second)
				most := max(interval+cutAfter, election+recentCount*tick) + 2*tick
				if len(c.cuts[0]) != 1 || c.cuts[0][0]-begin > most {
					t.Errorf("%d backends, election %s: one stalls at %s and is cut at %v, not within %s", n, election, begin, c.cuts[0], most)
				}
				for i, cuts := range c.cuts[1:] {
					if len(cuts) > 0 {
						t.Errorf("%d backends, election %s: %d is well, and is cut at %v", n, election, i+1, cuts)
					}
				}
			}
		}
	}
}

// TestNothingIsCutWhileMostAreSilent: if they stall together, the host does.
func TestNothingIsCutWhileMostAreSilent(t *testing.T) {
	for _, givesUp := range []time.Duration{0, 400 * time.Millisecond} {
		c := stallScenario{givesUp: givesUp, takes: func(i int, at time.Duration) time.Duration {
			if i < 2 && at >= time.Second {
				return never
			}
			return quick
		}}
		c.run(3, 20*time.Second)
		if slices.ContainsFunc(c.cuts, func(cuts []time.Duration) bool { return len(cuts) > 0 }) {
			t.Errorf("two of three stall at once, give up after %s, and are cut at %v", givesUp, c.cuts)
		}
	}
}

// TestALateNoIsSilence: a backend whose etcd was slow for a moment loses no connections, but one that
// reports at once that it is not ready does.
func TestALateNoIsSilence(t *testing.T) {
	start := time.Unix(1e9, 0)
	well := record{}.startCheck(start).finishCheck(ready, start)
	asked := well.startCheck(start.Add(time.Second))
	for after, want := range map[time.Duration]status{quick: notReady, slowAfter: ready, stallAfter - step: ready} {
		now := start.Add(time.Second + after)
		late := asked.finishCheck(notReady, now)
		if late.status != want || late.owingSince.IsZero() != (want == notReady) {
			t.Errorf("after %s a backend says that it is not ready: %+v", after, late)
		}
		_, fates := decide([]record{late, well}, now)
		if drained := fates[0] == drain; drained != (want == notReady) {
			t.Errorf("after %s a backend says that it is not ready, and its connections are drained: %t", after, drained)
		}
	}
}

// TestTheSecondToStallWaitsForTheFirst: it is cut once the first one is known to be down,
// not right after it.
func TestTheSecondToStallWaitsForTheFirst(t *testing.T) {
	c := stallScenario{takes: func(i int, at time.Duration) time.Duration {
		if at >= time.Duration(i+1)*time.Second && i < 2 {
			return never
		}
		return quick
	}}
	c.run(3, 20*time.Second)
	if len(c.cuts[0]) != 1 || len(c.cuts[1]) != 1 || len(c.cuts[2]) != 0 || c.cuts[1][0]-c.cuts[0][0] < probation-cutAfter-interval {
		t.Errorf("two of three stall one after the other, and are cut at %v", c.cuts)
	}
}

// TestOnABusyHostFewAreCut: each is late at random, some by far, and all pause at the
// same times; every cut is a false alarm. Then one stalls, and is cut nevertheless.
func TestOnABusyHostFewAreCut(t *testing.T) {
	const seeds, busy, n = 300, 2 * time.Minute, 3
	all, slowest := 0, time.Duration(0)
	for seed := range uint64(seeds) {
		r := rand.New(rand.NewPCG(seed, 2))
		late := make([]time.Duration, n) // until when each is late by itself
		all3 := time.Duration(0)         // and until when all are
		c := stallScenario{takes: func(i int, at time.Duration) time.Duration {
			if i == 0 && at >= busy {
				return never
			}
			if at > all3 && r.IntN(60) == 0 {
				all3 = at + time.Duration(r.Int64N(int64(3*time.Second)))
			}
			if at > late[i] && r.IntN(25) == 0 {
				late[i] = at + time.Duration(r.Int64N(int64(1500*time.Millisecond)))
			}
			return max(late[i]-at, all3-at, 0) + time.Duration(1+r.IntN(30))*step
		}}
		c.run(n, busy+15*time.Second)
		var before []time.Duration
		for i, cuts := range c.cuts {
			for _, at := range cuts {
				if at < busy {
					before = append(before, at)
				}
				for j, other := range c.cuts {
					if j != i && slices.ContainsFunc(other, func(b time.Duration) bool { return b <= at && at-b < probation }) {
						t.Errorf("seed %d: %d is cut at %s, within %s of another: %v", seed, i, at, probation, c.cuts)
					}
				}
			}
		}
		all += len(before)
		if len(before) > 12 {
			t.Errorf("seed %d: within %s of trouble on the host %d cuts: %v", seed, busy, len(before), before)
		}
		if at := slices.IndexFunc(c.cuts[0], func(at time.Duration) bool { return at >= busy-falseAlarm }); at < 0 {
			t.Errorf("seed %d: one that has stalled for 15 s is not cut: %v", seed, c.cuts)
		} else {
			slowest = max(slowest, c.cuts[0][at]-busy) // it may have been late, and cut, before
		}
	}
	t.Logf("%d cuts in %d courses of %s; one that stalls is cut after %s at most", all, seeds, busy, slowest)
}
