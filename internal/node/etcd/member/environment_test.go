package member

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/node/etcd/certs"
)

func TestEnvironment(t *testing.T) {
	c := Config{ID: "etcd-a", Listen: "0.0.0.0", PeerURLs: []string{"https://etcd-a.internal.x:2380"}, ClientURLs: []string{"https://etcd-a.internal.x:4001"},
		QuarantineURLs: []string{"http://etcd-a.internal.x:3994"}, Environment: []string{"ETCD_QUOTA_BACKEND_BYTES=1", "ETCD_LOGGER=capnslog"}}
	k := storedState{State: etcd.State{Token: "T", Seat: "4f", Version: "3.5.31"}, Initial: []etcd.Node{
		{Name: "etcd-a", URLs: []string{"https://a:1"}}, {Name: "etcd-b", URLs: []string{"https://b:1", "https://b:2"}}}}
	want := `ETCD_ADVERTISE_CLIENT_URLS=https://etcd-a.internal.x:4001
ETCD_CERT_FILE=/disk/pki/T/clients/server.crt
ETCD_CLIENT_CERT_AUTH=true
ETCD_DATA_DIR=/disk/data/T
ETCD_EXPERIMENTAL_INITIAL_CORRUPT_CHECK=true
ETCD_INITIAL_ADVERTISE_PEER_URLS=https://etcd-a.internal.x:2380
ETCD_INITIAL_CLUSTER=etcd-a=https://a:1,etcd-b=https://b:1,etcd-b=https://b:2
ETCD_INITIAL_CLUSTER_STATE=existing
ETCD_INITIAL_CLUSTER_TOKEN=T
ETCD_KEY_FILE=/disk/pki/T/clients/server.key
ETCD_LISTEN_CLIENT_URLS=https://0.0.0.0:4001
ETCD_LISTEN_PEER_URLS=https://0.0.0.0:2380
ETCD_LOGGER=capnslog
ETCD_LOG_OUTPUTS=stdout
ETCD_NAME=etcd-a
ETCD_PEER_CERT_FILE=/disk/pki/T/peers/me.crt
ETCD_PEER_CLIENT_CERT_AUTH=true
ETCD_PEER_KEY_FILE=/disk/pki/T/peers/me.key
ETCD_PEER_TRUSTED_CA_FILE=/disk/pki/T/peers/ca.crt
ETCD_QUOTA_BACKEND_BYTES=1
ETCD_STRICT_RECONFIG_CHECK=true
ETCD_TRUSTED_CA_FILE=/disk/pki/T/clients/ca.crt`
	if d := cmp.Diff(want, strings.Join(c.environment(k, "/disk"), "\n")); d != "" {
		t.Error(d)
	}
	k.Quarantined, k.Seat, k.Version = true, etcd.FounderSeat, "3.6.12"
	got := strings.Join(c.environment(k, "/disk"), "\n")
	for _, want := range []string{"ETCD_LISTEN_CLIENT_URLS=http://0.0.0.0:3994\n", "ETCD_ADVERTISE_CLIENT_URLS=http://etcd-a.internal.x:3994\n", "ETCD_INITIAL_CLUSTER_STATE=new\n", "ETCD_STRICT_RECONFIG_CHECK=false"} {
		if !strings.Contains(got, want) {
			t.Errorf("in quarantine, %q is not in\n%s", want, got)
		}
	}
	for _, not := range []string{"ETCD_CERT_FILE", "CORRUPT"} {
		if strings.Contains(got, not) {
			t.Errorf("in quarantine without TLS, and with 3.6, %s is in\n%s", not, got)
		}
	}
}

func TestUnusableURLsAreRefused(t *testing.T) {
	good := Config{PeerURLs: []string{"http://a:1"}, ClientURLs: []string{"http://a:2"}, QuarantineURLs: []string{"http://a:3"}}
	if err := good.check(); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"a:1", "https://a", "unix:///run/etcd", "http://:1", "%"} {
		c := good
		c.ClientURLs, c.Authorities = []string{bad}, &certs.Authorities{}
		if c.check() == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	c := good
	c.PeerURLs = nil
	if c.check() == nil {
		t.Error("no URL was accepted")
	}
	c = good
	c.PeerURLs = []string{"https://a:1"}
	if c.check() == nil {
		t.Error("TLS without authorities was accepted")
	}
}

func TestTheDataOfEtcdIsClosed(t *testing.T) {
	at := filepath.Join(t.TempDir(), "made", "here")
	m, err := Open(Config{ID: "a", Dir: at, PeerURLs: []string{"http://a:1"}, ClientURLs: []string{"http://a:2"}, QuarantineURLs: []string{"http://a:3"}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close() //nolint:errcheck // nothing was started
	if info, err := os.Stat(at); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder of etcd has the mode %v, %v", info.Mode(), err)
	}
}
