package agent_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"sigs.k8s.io/yaml"

	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/contract/signed"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/agent"
	"kops.local/kops/internal/node/host"
)

const filesOfUser = "http://10.77.0.1:8080"

// signer is one of the user's keys.
type signer struct {
	private []byte
	public  string
}

func newSigner(t *testing.T) signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	s := signer{private: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})}
	if _, s.public, err = signed.Sign(s.private, nil); err != nil {
		t.Fatal(err)
	}
	return s
}

// trustKey makes a worker trust the indexes that a key has signed.
func (w *world) trustKey(key string) {
	w.Helper()
	w.changeConfig(func(c *nodeconfig.Config) {
		c.FileTrust = &nodeconfig.FileTrust{Repository: filesOfUser, Keys: []string{key}}
	})
}

// changeConfig changes the configuration with which a worker is started.
func (w *world) changeConfig(change func(*nodeconfig.Config)) {
	w.Helper()
	var c nodeconfig.Config
	var boot nodeconfig.Boot
	w.decode(string(w.config), &c)
	w.decode(string(w.boot), &boot)
	change(&c)
	var err error
	if w.config, err = yaml.Marshal(c); err != nil {
		w.Fatal(err)
	}
	sum := sha256.Sum256(w.config)
	boot.NodeupConfigHash, w.joiner.config = base64.StdEncoding.EncodeToString(sum[:]), w.config
	if w.boot, err = yaml.Marshal(boot); err != nil {
		w.Fatal(err)
	}
}

// publish puts a signed index of the machine's files where the machine looks for it.
func (w *world) publish(key signer, without string) {
	w.Helper()
	index := signed.Index{Files: map[string]signed.File{}}
	for _, line := range slices.Concat(slices.Collect(maps.Values(w.lines()))...) {
		if sum, url, _ := strings.Cut(line, "@"); without == "" || !strings.Contains(url, without) {
			index.Files[url] = signed.File{SHA256: sum}
		}
	}
	text, err := json.Marshal(index)
	if err != nil {
		w.Fatal(err)
	}
	signature, _, err := signed.Sign(key.private, text)
	if err != nil {
		w.Fatal(err)
	}
	w.store[filesOfUser+"/bundle.json"], w.store[filesOfUser+"/bundle.json.sig"] = text, signature
}

func (w *world) lines() map[string][]string {
	var c nodeconfig.Config
	w.decode(string(w.config), &c)
	out := map[string][]string{}
	for arch, lines := range c.Assets {
		out[string(arch)] = lines
	}
	return out
}

func TestFilesOfAnUnsignedIndexAreRejected(t *testing.T) {
	mine, theirs := newSigner(t), newSigner(t)
	for name, c := range map[string]struct {
		spoil   func(*world)
		message string
		remedy  string
	}{
		"no index":      {func(w *world) { delete(w.store, filesOfUser+"/bundle.json") }, "no file of " + filesOfUser + " is used, because its index cannot be trusted", "kops bundle sign"},
		"no signature":  {func(w *world) { delete(w.store, filesOfUser+"/bundle.json.sig") }, "because its index cannot be trusted", "kops bundle sign"},
		"another key":   {func(w *world) { w.publish(theirs, "") }, "it is not signed by a trusted key", "kops bundle sign"},
		"a changed one": {func(w *world) { w.store[filesOfUser+"/bundle.json"] = []byte("{}") }, "it is not signed by a trusted key", "kops bundle sign"},
		"a file less":   {func(w *world) { w.publish(mine, "kubelet") }, "kubelet is refused: the signed index of " + filesOfUser + " has no file with the SHA-256", "kops rolling-update cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, worker)
			w.trustKey(mine.public)
			w.publish(mine, "")
			c.spoil(w)
			if err := w.converge(); err == nil {
				t.Fatal("no error")
			}
			r := w.lastReport()
			if p := r.Broken(); p == nil || p.Name != agent.PhaseModel || !strings.Contains(p.Error, c.message) || !strings.Contains(p.Remedy, c.remedy) {
				t.Errorf("report:\n%s\nwant %q; %s", r.String(), c.message, c.remedy)
			}
			if slices.ContainsFunc(w.files(), func(f txtar.File) bool { return strings.Contains(f.Name, "bin/kubelet") }) {
				t.Error("the kubelet was installed")
			}
			w.publish(mine, "") // which repairs it
			if err := w.converge(); err != nil {
				t.Errorf("after the cause has gone: %v", err)
			}
		})
	}
}

func TestASignedIndexIsReadOnce(t *testing.T) {
	key := newSigner(t)
	w := newWorld(t, worker)
	w.trustKey(key.public)
	w.publish(key, "")
	if err := w.converge(); err != nil {
		t.Fatal(err)
	}
	w.store = store{} // the repository is unreachable when the machine starts again
	if err := w.converge(); err != nil {
		t.Errorf("at the next start: %v", err)
	}
	w.write("/var/lib/kops/files.json", "{}") // the kept index is not trusted without verification
	if err := w.converge(); err == nil || !strings.Contains(err.Error(), "cannot be trusted") {
		t.Errorf("with another index on the disk: %v", err)
	}
}

// TestWithABundleNoOtherHostIsContacted has a machine fetch everything over the network,
// and records each host that it connects to.
func TestWithABundleNoOtherHostIsContacted(t *testing.T) {
	key := newSigner(t)
	w := newWorld(t, worker)
	w.trustKey(key.public)
	w.publish(key, "")
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		url := filesOfUser + r.URL.Path
		text, ok := w.store[url]
		if !ok {
			text, ok = w.mirrors[url]
		}
		if !ok {
			http.NotFound(rw, r)
			return
		}
		rw.Write(text) //nolint:errcheck // the client is the test
	}))
	t.Cleanup(s.Close)
	var mu sync.Mutex
	hosts := map[string]int{}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		mu.Lock()
		hosts[address]++
		mu.Unlock()
		if "http://"+address != filesOfUser {
			return nil, errors.New("no route to " + address)
		}
		return (&net.Dialer{}).DialContext(ctx, network, s.Listener.Addr().String())
	}}}
	open := host.Open(client)
	w.machine.Fetch = open
	a := w.agent()
	a.Store = reading(open)
	if err := a.Converge(t.Context(), w.boot); err != nil {
		t.Fatal(err)
	}
	if len(hosts) != 1 || hosts["10.77.0.1:8080"] < 2+4 {
		t.Errorf("the machine has connected to %v", hosts)
	}
}

// reading is a source that opens what a client requests.
type reading func(context.Context, string) (io.ReadCloser, error)

func (r reading) Read(ctx context.Context, url string) ([]byte, error) {
	body, err := r(ctx, url)
	if err != nil {
		return nil, fault.Wrap(fault.NotYet, err, "")
	}
	defer body.Close() //nolint:errcheck // only read
	return io.ReadAll(body)
}
