package bootstrap

import (
	"net/netip"
	"testing"
	"time"
)

// network returns the nth sender.
func network(n int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(n)}), 32)
}

func TestABucketIsForAll(t *testing.T) {
	for senders, want := range map[int]int{1: 10 + 59*4, 2: 2*7 + 59*4, 100: 20 + 59*4} {
		var b Bucket
		taken, now := 0, time.Unix(1e9, 0)
		for range 60 {
			for n := range 100 {
				if b.Take(now, network(n%senders), 4, 20) {
					taken++
				}
			}
			now = now.Add(time.Second)
		}
		if taken < want-4 || taken > want {
			t.Errorf("%d questions of %d senders in a minute, want %d", taken, senders, want)
		}
		if now = now.Add(time.Hour); !b.Take(now, network(1), 4, 20) || b.used > 1 || len(b.by) != 1 {
			t.Errorf("%v used after an hour, by %v", b.used, b.by)
		}
	}
}

// A few senders that ask all the time do not keep the others out, and have what these leave.
func TestABucketIsShared(t *testing.T) {
	for _, flooding := range []int{1, 5, 15} {
		var b Bucket
		busy, flood, now := 0, 0, time.Unix(1e9, 0)
		for n := range 600 {
			for range 20 {
				for f := range flooding {
					if b.Take(now, network(f), 4, 60) {
						flood++
					}
				}
			}
			if n%10 == 5 && !b.Take(now, network(100+n/10), 4, 60) { // a machine that joins
				busy++
			}
			now = now.Add(time.Second / 10)
		}
		if busy > 0 || flood < 3*60 {
			t.Errorf("%d senders that flood have %d questions; machines that join are put off %d times", flooding, flood, busy)
		}
	}
}
