package host

import (
	"crypto/x509"
	"testing"
	"time"
)

// A certificate of weeks is issued anew in its last third, and one of years in its last three months.
func TestWhenACertificateIsIssuedAnew(t *testing.T) {
	const day = 24 * time.Hour
	end := time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		lives, left time.Duration
		want        bool
	}{
		{30 * day, 11 * day, false}, {30 * day, 10 * day, true}, {30 * day, -day, true},
		{455 * day, 91 * day, false}, {455 * day, 90 * day, true}, {10 * 365 * day, 91 * day, false},
	} {
		c := &x509.Certificate{NotBefore: end.Add(-tt.lives), NotAfter: end}
		if got := nearEnd(c, end.Add(-tt.left)); got != tt.want {
			t.Errorf("of %s, %s before its end: %v", tt.lives, tt.left, got)
		}
	}
}
