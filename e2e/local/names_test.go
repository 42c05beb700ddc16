package local

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"kops.local/kops/internal/platform/local/localtest"
)

// TestExternalDNS: a Service's name appears on a DNS server that takes updates (RFC 2136), follows the Service, and goes
// with it; the names of others stay.
func TestExternalDNS(t *testing.T) {
	localtest.ClusterTurn(t, 7, addonTurns)
	w := newWorld(t)
	w.addAddons("external-dns")
	w.create("--node-count", "1")
	s := w.startNameServer()
	text, err := os.ReadFile("testdata/external-dns.yaml")
	w.ok(err)
	file := filepath.Join(w.TempDir(), "external-dns.yaml")
	host, port, _ := strings.Cut(s.address, ":")
	w.ok(os.WriteFile(file, []byte(strings.NewReplacer("HOST", host, "PORT", port, "SECRET", s.secret).Replace(string(text))), 0o600))
	w.kubectl("apply", "-f", file)
	w.measureProgram("external-dns")

	w.kubectl("create", "service", "externalname", "site", "--external-name=elsewhere.example.com")
	start := time.Now()
	w.kubectl("annotate", "service", "site", "external-dns.alpha.kubernetes.io/hostname=site.example.test")
	s.expect("site.example.test.", dns.TypeCNAME, "elsewhere.example.com.")
	w.figures.seconds("a name appears", time.Since(start))
	s.expect("others.example.test.", dns.TypeA, "192.0.2.7")

	w.kubectl("patch", "service", "site", "-p", `{"spec":{"externalName":"other.example.com"}}`)
	s.expect("site.example.test.", dns.TypeCNAME, "other.example.com.")

	start = time.Now()
	w.kubectl("delete", "service", "site")
	s.expect("site.example.test.", dns.TypeCNAME)
	w.figures.seconds("a name goes", time.Since(start))
	s.expect("others.example.test.", dns.TypeA, "192.0.2.7")
	w.delete()
}

// nameServer is BIND on this host, at its address in the cluster's network.
type nameServer struct {
	*world
	address, secret string
}

// namePort is one of the host's few ports that machines reach.
const namePort = 53

// startNameServer starts a server that takes updates of example.test from those who have a key, until the test ends.
func (w *world) startNameServer() nameServer {
	w.Helper()
	network, err := netip.MustParseAddr(w.machines("")[0].Address).Prefix(24)
	w.ok(err)
	key := make([]byte, 32)
	_, err = rand.Read(key)
	w.ok(err)
	host := network.Addr().Next().String() // the host's address in the cluster's network is the first
	s := nameServer{w, host + ":" + strconv.Itoa(namePort), base64.StdEncoding.EncodeToString(key)}
	dir := w.TempDir()
	w.ok(os.WriteFile(filepath.Join(dir, "zone"), []byte("$TTL 60\n@ SOA ns.example.test. admin.example.test. 1 60 60 600 60\n@ NS ns.example.test.\nns A "+host+"\nothers A 192.0.2.7\n"), 0o600))
	config := filepath.Join(dir, "named.conf")
	w.ok(os.WriteFile(config, []byte(fmt.Sprintf(`
key "updates" { algorithm hmac-sha256; secret %q; };
options { directory %q; pid-file none; session-keyfile none; listen-on port %d { %s; }; listen-on-v6 { none; }; recursion no; dnssec-validation no; };
controls { };
zone "example.test" { type primary; file "zone"; allow-transfer { key "updates"; }; allow-update { key "updates"; }; };
`, s.secret, dir, namePort, host)), 0o600))
	cache, err := os.UserCacheDir()
	w.ok(err)
	named, err := filepath.Glob(filepath.Join(cache, "kops", "build", "bind9-*", "rootfs", "usr", "sbin", "named"))
	if err != nil || len(named) == 0 {
		w.Fatalf("BIND was not built: %v", err)
	}
	libraries, err := filepath.Glob(filepath.Join(named[0], "../../lib/*-linux-gnu"))
	w.ok(err)
	log, err := os.Create(filepath.Join(dir, "log"))
	w.ok(err)
	c := exec.Command(named[0], "-g", "-c", config)
	c.Env, c.Stdout, c.Stderr = append(os.Environ(), "LD_LIBRARY_PATH="+strings.Join(libraries, ":")), log, log
	w.ok(c.Start())
	w.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait() // it was killed
		if text, err := os.ReadFile(log.Name()); w.Failed() && err == nil {
			w.Logf("%s", text)
		}
	})
	s.expect("others.example.test.", dns.TypeA, "192.0.2.7")
	return s
}

// expect waits until a name has exactly the given values.
func (s nameServer) expect(name string, kind uint16, values ...string) {
	s.Helper()
	s.wait(fmt.Sprintf("%s is %v", name, values), clusterTime, func() error {
		answer, err := dns.Exchange(new(dns.Msg).SetQuestion(name, kind), s.address)
		if err != nil {
			return err
		}
		var got []string
		for _, r := range answer.Answer {
			got = append(got, strings.TrimPrefix(r.String(), r.Header().String()))
		}
		if !slices.Equal(got, values) {
			return fmt.Errorf("it is %v", got)
		}
		return nil
	})
}
