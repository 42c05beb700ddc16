package bootstrap

import (
	"testing"
	"time"
)

func TestABucketIsForAll(t *testing.T) {
	var b Bucket
	taken, now := 0, time.Unix(1e9, 0)
	for range 60 {
		for range 100 {
			if b.Take(now, 4, 20) {
				taken++
			}
		}
		now = now.Add(time.Second)
	}
	if taken != 20+59*4 {
		t.Errorf("%d questions in a minute", taken)
	}
	if now = now.Add(time.Hour); !b.Take(now, 4, 20) || b.used > 1 {
		t.Errorf("%v used after an hour", b.used)
	}
}
