package controller

import (
	"fmt"
	"testing"
	"time"

	"kops.local/kops/internal/node/senders"
)

// tryEnter sends a request that never leaves, and returns the wait if it was refused.
func tryEnter(g *Gate, remote string) (passed bool, wait time.Duration) {
	leave, wait := g.enter(remote)
	return leave != nil, wait
}

func TestOneSenderDoesNotBlockOthers(t *testing.T) {
	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	g := NewGate(func() time.Time { return now })
	passed := 0
	for range burst {
		if ok, wait := tryEnter(g, "10.0.0.1:1000"); ok {
			passed++
		} else if wait <= 0 {
			t.Fatal("refused, and not told for how long")
		}
	}
	if passed != maxPerSender {
		t.Errorf("%d requests of one sender are under way", passed)
	}
	if ok, _ := tryEnter(g, "10.0.0.2:1000"); !ok {
		t.Error("another sender is kept out")
	}
	for n := range 10 * maxAtOnce {
		_, _ = tryEnter(g, fmt.Sprintf("10.0.1.%d:1000", n%200))
	}
	if g.busy != maxAtOnce {
		t.Errorf("%d are under way", g.busy)
	}
	if ok, wait := tryEnter(g, "10.0.0.3:1000"); ok || wait != full {
		t.Errorf("passes when everything is taken: %v, wait %s", ok, wait)
	}
}

func TestTheRequestRateOfASender(t *testing.T) {
	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	g := NewGate(func() time.Time { return now })
	ask := func(n int, remote func(n int) string) (passed int) {
		for i := range n {
			if leave, _ := g.enter(remote(i)); leave != nil {
				leave()
				passed++
			}
		}
		return passed
	}
	own := func(int) string { return "[2001:db8::1]:1000" }
	pods := func(n int) string { return fmt.Sprintf("[2001:db8::1:%x]:1000", n) }
	if got := ask(3*burst, own); got != burst {
		t.Errorf("%d at once", got)
	}
	if _, wait := g.enter(own(0)); wait != time.Second/perSecond {
		t.Errorf("to wait %s", wait)
	}
	if got := ask(burst, pods); got != 0 {
		t.Errorf("%d of the same machine", got)
	}
	now = now.Add(2 * time.Second)
	if got := ask(burst, own); got != 2*perSecond {
		t.Errorf("%d after two seconds", got)
	}
	if got := ask(1, func(int) string { return "[::ffff:10.0.0.1]:7" }); got != 1 || g.senders[senders.Network("10.0.0.1:8")] == nil {
		t.Error("an address of IPv4 is not known in that of IPv6")
	}
}

func TestTheMemoryForSendersIsBounded(t *testing.T) {
	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	g := NewGate(func() time.Time { return now })
	ask := func(n int) bool {
		leave, _ := g.enter(fmt.Sprintf("10.%d.%d.%d:1", n>>16, n>>8&255, n&255))
		if leave != nil {
			leave()
		}
		return leave != nil
	}
	for n := range maxSenders + 2*burst {
		if got := ask(n); got != (n < maxSenders+burst) {
			t.Fatalf("sender %d passes: %v", n, got)
		}
	}
	if len(g.senders) != maxSenders {
		t.Errorf("%d are remembered", len(g.senders))
	}
	now = now.Add(time.Minute)
	if !ask(maxSenders+1) || len(g.senders) != 1 {
		t.Errorf("%d are remembered after they have rested", len(g.senders))
	}
}
