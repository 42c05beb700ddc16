package local

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kops.local/kops/api/status"
	"kops.local/kops/internal/contract/ports"
	"kops.local/kops/internal/ops/certificates"
	"kops.local/kops/internal/platform/local/localtest"
	"kops.local/kops/internal/platform/local/site"
)

const (
	// rotationTime is the time limit of the replacement of all keys of three control planes and three
	// workers.
	rotationTime = 12 * time.Minute
	// cutOff is the time after which a rotation is killed, and cutLate the time after the start of a step.
	cutOff, cutLate = 20 * time.Second, 8 * time.Second
	kubeletPort     = "10250"
)

// TestRotationUnderLoad replaces all keys of a cluster, and its clients notice nothing: its driver is
// killed twice, and the same command continues. Afterwards everything signed by the old keys is refused.
func TestRotationUnderLoad(t *testing.T) {
	localtest.SkipUnlessFull(t, "TestInPlace")
	w := newWorld(t)
	w.create("--control-plane-count", "3", "--node-count", "3")
	machines := namesOf(w.machines(""))
	old := w.credentials()
	w.checkAttempts(old, "")
	l := w.startLoad()
	begun := time.Now()
	w.rotateAll(true)
	took := time.Since(begun)
	w.figures.seconds("all keys of 3 control planes and 3 workers", took)
	if took > rotationTime {
		t.Errorf("the rotation took %s, and may take %s", took.Round(time.Second), rotationTime)
	}
	w.waitUntilValid()
	l.stopAndCheck("rotation", begun, longestGap)
	w.checkOldKeysGone(old, machines)
	w.delete()
}

// TestRotation replaces all keys of the smallest cluster, and restores a back-up from before its
// encryption key was replaced.
func TestRotation(t *testing.T) {
	localtest.SkipUnlessFull(t, "TestInPlace")
	w := newWorld(t)
	w.create("--node-count", "1")
	machines := namesOf(w.machines(""))
	old := w.credentials()
	w.checkAttempts(old, "")
	w.rotateAll(false)
	w.waitUntilValid()
	w.checkOldKeysGone(old, machines)
	w.restoreAcrossRotation()
	w.delete()
}

// rotateAll replaces all keys. If cut is set, the command is killed twice.
func (w *world) rotateAll(cut bool) {
	w.Helper()
	if cut {
		early, end := context.WithTimeout(w.Context(), cutOff)
		defer end()
		late, kill := context.WithCancel(w.Context())
		defer kill()
		if w.rotate(early, "all", "cut off early", func(string) {}) || w.rotate(late, "all", "cut off late", func(step string) {
			if step == "reissue" {
				time.AfterFunc(cutLate, kill)
			}
		}) {
			w.Error("a rotation was to be killed, and was done before")
		}
	}
	if !w.rotate(w.Context(), "all", "to the end", func(string) {}) {
		w.Fatal("the rotation ended before its end")
	}
}

// rotate continues the replacement of keys, all or encryption, until it is done or the context
// ends. begun receives each step. rotate reports whether everything is done.
func (w *world) rotate(ctx context.Context, keys, what string, begun func(step string)) (done bool) {
	w.Helper()
	c := exec.CommandContext(ctx, w.tools.kops, "rotate", keys, cluster, "--yes")
	var out strings.Builder
	c.Env, c.Stdout = w.env, &out
	stderr, err := c.StderrPipe()
	w.ok(err)
	w.ok(c.Start())
	start, since, step := time.Now(), time.Now(), ""
	var said []string
	next := func(name string) {
		if step != "" {
			w.figures.seconds("rotation of "+keys+", "+what+", step "+step, time.Since(since))
		}
		step, since = name, time.Now()
	}
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		line := lines.Text()
		said = append(said, fmt.Sprintf("%7.1f %s", time.Since(start).Seconds(), line))
		if rest, is := strings.CutPrefix(line, "step "); is {
			_, name, _ := strings.Cut(rest, ", ")
			name, _, _ = strings.Cut(name, ":")
			next(name)
			begun(name)
		}
	}
	next("")
	err = c.Wait()
	w.Logf("kops rotate %s, %s: %v after %s\n%s\n%s", keys, what, err, time.Since(start).Round(time.Millisecond), strings.Join(said, "\n"), out.String())
	if err != nil && ctx.Err() == nil {
		w.Fatal("the rotation ended before its end")
	}
	return err == nil
}

// attempt is the use of a credential that old keys have signed, or of a client that trusts them. It
// reports whether it was refused in the way expected of such a credential.
type attempt struct {
	what string
	do   func() (refused bool, err error)
}

// checkAttempts makes all attempts. If why is empty, all must be accepted; otherwise all must be refused.
func (w *world) checkAttempts(all []attempt, why string) {
	w.Helper()
	n := 0
	for _, a := range all {
		refused, err := a.do()
		switch {
		case err != nil:
			w.Errorf("%s: %v", a.what, err)
		case refused && why == "":
			w.Errorf("%s is refused", a.what)
		case !refused && why != "":
			w.Errorf("%s is accepted %s", a.what, why)
		default:
			n++
		}
	}
	w.Logf("%d of %d attempts with the old keys are as they are to be", n, len(all))
}

// credentials returns attempts with credentials signed by the current keys, at every machine.
func (w *world) credentials() []attempt {
	w.Helper()
	kubeconfig := w.restConfig()
	w.ok(rest.LoadTLSFiles(kubeconfig))
	admin, err := tls.X509KeyPair(kubeconfig.CertData, kubeconfig.KeyData)
	w.ok(err)
	file, err := os.ReadFile(w.kubeconfig())
	w.ok(err)
	token := strings.TrimSpace(w.kubectl("create", "token", "default", "--duration=24h"))
	authority := x509.NewCertPool()
	authority.AppendCertsFromPEM(kubeconfig.CAData)
	var kubelets *tls.Certificate
	out := []attempt{{"the old kubeconfig file", func() (bool, error) { return byKubeconfig(w.Context(), file) }}}
	server := func(what, address string, roots *x509.CertPool) {
		out = append(out, attempt{what + " for who believes the old authority alone", func() (bool, error) { return isUntrusted(w.Context(), address, roots) }})
	}
	for _, m := range w.machines("") {
		kubelet := net.JoinHostPort(m.Address, kubeletPort)
		if m.Labels["role"] == "control-plane" {
			api := net.JoinHostPort(m.Address, "443")
			server("the API server of "+m.Name, api, authority)
			out = append(out, attempt{"an administrator's old certificate at the API server of " + m.Name, func() (bool, error) { return unauthorized(w.Context(), "https://"+api+"/api", &admin, "") }},
				attempt{"a service account's old token at the API server of " + m.Name, func() (bool, error) {
					return unauthorized(w.Context(), "https://"+api+"/api/v1/namespaces", nil, token)
				}})
			kubelets = w.pair(m.Name, "/srv/kubernetes/kube-apiserver/kubelet-api")
			for _, name := range []string{"main", "events"} {
				p, _ := ports.OfEtcd(name)
				for _, port := range []struct {
					of     string
					number int
					file   string
				}{{"clients", p.Client, "server"}, {"peers", p.Peer, "me"}} {
					dir := w.onlyMatch(w.site.Path(site.Volumes, "*etcd-"+name+"*", "pki", "*", port.of))
					pair, err := tls.LoadX509KeyPair(filepath.Join(dir, port.file+".crt"), filepath.Join(dir, port.file+".key"))
					w.ok(err)
					ca, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
					w.ok(err)
					roots := x509.NewCertPool()
					roots.AppendCertsFromPEM(ca)
					address, what := net.JoinHostPort(m.Address, fmt.Sprint(port.number)), fmt.Sprintf("etcd %s of %s, its port of %s,", name, m.Name, port.of)
					server(what, address, roots)
					out = append(out, attempt{"an old certificate at " + what, func() (bool, error) { return isAlert(w.Context(), address, pair) }})
				}
			}
		}
		server("the kubelet of "+m.Name, kubelet, authority)
		out = append(out, attempt{"the old certificate of API servers at the kubelet of " + m.Name, func() (bool, error) {
			return unauthorized(w.Context(), "https://"+kubelet+"/pods", kubelets, "")
		}})
	}
	return out
}

// onlyMatch returns the first path that matches a pattern.
func (w *world) onlyMatch(pattern string) string {
	w.Helper()
	found := w.every(pattern)
	if len(found) == 0 {
		w.Fatalf("nothing is at %s", pattern)
	}
	return found[0]
}

// pair reads a certificate of a running machine, and its key.
func (w *world) pair(machine, path string) *tls.Certificate {
	w.Helper()
	pids, err := w.machine.Group(machine).Processes()
	w.ok(err)
	for _, pid := range pids { // some of them belong to containers
		at := fmt.Sprintf("/proc/%d/root%s", pid, path)
		if c, err := tls.LoadX509KeyPair(at+".crt", at+".key"); err == nil {
			return &c
		}
	}
	w.Fatalf("%s has no certificate %s", machine, path)
	return nil
}

// byKubeconfig calls the API with a kubeconfig file.
func byKubeconfig(ctx context.Context, file []byte) (refused bool, err error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(file)
	if err != nil {
		return false, err
	}
	c, err := rest.HTTPClientFor(config)
	if err != nil {
		return false, err
	}
	c.Timeout = tryTime
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+"/api", nil)
	if err != nil {
		return false, err
	}
	r, err := c.Do(req)
	if errors.As(err, new(x509.UnknownAuthorityError)) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return r.StatusCode == http.StatusUnauthorized, r.Body.Close()
}

// unauthorized sends a request with a certificate or a token, to any server.
func unauthorized(ctx context.Context, url string, certificate *tls.Certificate, token string) (refused bool, err error) {
	config := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // only the client's credentials matter here
	if certificate != nil {
		config.Certificates = []tls.Certificate{*certificate}
	}
	c := http.Client{Timeout: tryTime, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: config}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	r, err := c.Do(req)
	if err != nil {
		return false, err
	}
	return r.StatusCode == http.StatusUnauthorized, r.Body.Close()
}

// isAlert presents a certificate to a server that requires one, and reports whether it sends an alert.
func isAlert(ctx context.Context, address string, certificate tls.Certificate) (refused bool, err error) {
	conn, err := handshake(ctx, address, certificate)
	if err != nil {
		return isRemoteAlert(err), ignoreIf(err, isRemoteAlert)
	}
	defer conn.Close() //nolint:errcheck // nothing was written
	if err := conn.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
		return false, err
	}
	_, err = conn.Read(make([]byte, 1)) // with TLS 1.3 the client completes the handshake before the server verifies its certificate
	// etcd closes the connection of a peer that it trusts but whose address is not in its certificate
	silent := func(err error) bool {
		return err == nil || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, io.EOF)
	}
	return isRemoteAlert(err), ignoreIf(ignoreIf(err, isRemoteAlert), silent)
}

// isUntrusted reports whether a server presents a certificate that none of the roots has signed.
func isUntrusted(ctx context.Context, address string, roots *x509.CertPool) (refused bool, err error) {
	conn, err := handshake(ctx, address)
	if err != nil {
		return false, err
	}
	defer conn.Close() //nolint:errcheck // nothing was written
	_, err = conn.ConnectionState().PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	unknown := func(err error) bool { return errors.As(err, new(x509.UnknownAuthorityError)) }
	return unknown(err), ignoreIf(err, unknown)
}

func handshake(ctx context.Context, address string, certificates ...tls.Certificate) (*tls.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, Certificates: certificates}} //nolint:gosec // it is verified afterwards
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return conn.(*tls.Conn), nil
}

// isRemoteAlert reports whether an error is an alert sent by the peer.
func isRemoteAlert(err error) bool {
	var o *net.OpError
	return errors.As(err, &o) && o.Op == "remote error"
}

func ignoreIf(err error, is func(error) bool) error {
	if is(err) {
		return nil
	}
	return err
}

// checkOldKeysGone checks that nothing of the old keys is left, and that the machines are unchanged.
func (w *world) checkOldKeysGone(old []attempt, machines []string) {
	w.Helper()
	w.checkAttempts(old, "after the rotation")
	var all []status.ClusterCertificate
	w.ok(json.Unmarshal([]byte(w.must("get", "certificates", "--name", cluster, "-o", "json").out), &all))
	signs := map[string]string{}
	for _, c := range all {
		if c.Holder == certificates.Store && !c.Former {
			signs[c.Keyset] = c.Signer
		}
	}
	holders := map[string]int{}
	for _, c := range all {
		switch {
		case c.Holder == certificates.Store && c.Former != c.Distrusted:
			w.Errorf("the store has an authority that is former (%v) and distrusted (%v): %+v", c.Former, c.Distrusted, c)
		case c.Holder != certificates.Store && (c.Signer == "" || c.Signer != signs[c.Keyset]):
			w.Errorf("a certificate of an old key is left, %s signs now: %+v", signs[c.Keyset], c)
		}
		holders[c.Holder]++
	}
	w.Logf("certificates by holder: %v", holders)
	if now := namesOf(w.machines("")); len(holders) != len(machines)+3 || !slices.Equal(now, machines) {
		w.Errorf("the holders of certificates are %v; the machines are %v, and were %v", slices.Sorted(maps.Keys(holders)), now, machines)
	}
	for _, file := range w.every(w.site.Path(site.Volumes, "*", "pki", "*", "*", "*.crt")) {
		w.checkIssuer(file, signs)
	}
	w.checkUnchanged()
	w.upToDate()
}

// checkIssuer checks that the certificate of an etcd member is signed by a current key.
func (w *world) checkIssuer(file string, signs map[string]string) {
	w.Helper()
	text, err := os.ReadFile(file)
	w.ok(err)
	for b, rest := pem.Decode(text); b != nil; b, rest = pem.Decode(rest) {
		c, err := x509.ParseCertificate(b.Bytes)
		w.ok(err)
		if !slices.ContainsFunc(slices.Collect(maps.Values(signs)), func(id string) bool { return strings.Contains(c.Issuer.SerialNumber+" "+c.Issuer.String(), id) }) {
			w.Errorf("%s has a certificate of an old key: %s, issued by %s", file, c.Subject, c.Issuer)
		}
	}
}
