package host

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"testing"
	"time"

	"kops.local/kops/internal/contract/pki"
)

// A certificate valid for weeks is reissued in its last third, and one valid for years in its last
// three months; in the last third of that time it becomes urgent.
func TestWhenACertificateIsReissued(t *testing.T) {
	const day = 24 * time.Hour
	end := time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text, err := pki.NewPrivateKey(key).PEM()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		lives, left time.Duration
		want        Need
	}{
		{30 * day, 11 * day, Lasting}, {30 * day, 10 * day, Due}, {30 * day, 4 * day, Due}, {30 * day, 3 * day, Urgent}, {30 * day, -day, Urgent},
		{455 * day, 91 * day, Lasting}, {455 * day, 90 * day, Due}, {455 * day, 30 * day, Urgent}, {10 * 365 * day, 91 * day, Lasting},
		{30 * day, 31 * day, Urgent},
	} {
		c := &x509.Certificate{NotBefore: end.Add(-tt.lives), NotAfter: end, PublicKey: key.Public()}
		if got := needOf(c, text, end.Add(-tt.left)); got != tt.want {
			t.Errorf("of %s, %s before its end: %v", tt.lives, tt.left, got)
		}
		if got := needOf(c, nil, end.Add(-tt.left)); got != Urgent {
			t.Errorf("without its key: %v", got)
		}
	}
}
