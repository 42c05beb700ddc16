package ranges

import (
	"net/netip"
	"testing"
)

func TestLast(t *testing.T) {
	for r, want := range map[string]string{"10.0.0.0/16": "10.0.255.255", "10.0.3.7/30": "10.0.3.7", "192.0.2.1/32": "192.0.2.1", "0.0.0.0/0": "255.255.255.255", "172.16.9.1/12": "172.31.255.255"} {
		if got := Last(netip.MustParsePrefix(r)).String(); got != want {
			t.Errorf("the last address of %s is %s; want %s", r, got, want)
		}
	}
}
