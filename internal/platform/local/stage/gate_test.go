package stage

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"kops.local/kops/internal/platform/rehearsal"
)

const machineList = "a list of the machine's\n"

// openGate returns a client for which every name resolves to the gate, and the authority that it
// trusts.
func openGate(t *testing.T) (*http.Client, *authority) {
	t.Helper()
	a, err := newAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	p, err := newPublishers(newBundle(t), a, a.withAuthority([]byte(machineList)), log)
	if err != nil {
		t.Fatal(err)
	}
	played := &rehearsal.Play{Serves: func(host string) bool { return host == "api.service.test" },
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "the service ", r.Host, r.URL.Path) })}
	s := &Stage{Options: Options{Log: log}}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.serveHTTP(a.listener(l), &gate{play: func() *rehearsal.Play { return played }, publishers: p, log: log})
	t.Cleanup(func() {
		for _, c := range s.closers {
			c()
		}
		s.serving.Wait()
	})
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM(a.withAuthority(nil)) {
		t.Fatal("the authority cannot be read")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}, ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", l.Addr().String())
		}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}, a
}

func TestTheGateKnowsHosts(t *testing.T) {
	client, _ := openGate(t)
	for _, c := range []struct {
		method, url string
		code        int
		want        string
	}{
		{"GET", "https://api.service.test/x/y", 200, "the service api.service.test/x/y"},
		{"GET", "https://API.service.test/", 200, "the service API.service.test/"},
		{"POST", "https://api.service.test/v2/", 200, "the service api.service.test/v2/"},
		{"GET", "https://files.publisher.test/dl/thing", 200, thing},
		{"GET", "https://files.publisher.test/dl/thing.sha256", 200, fmt.Sprintf("%x\n", sha256.Sum256([]byte(thing)))},
		{"POST", "https://files.publisher.test/dl/thing", 405, "read-only"},
		{"GET", "https://files.publisher.test/dl/other", 404, "https://files.publisher.test/dl/other"},
		{"GET", "https://images.publisher.test/dl/thing", 404, "does not hold"}, // it belongs to another host
		{"GET", "https://nobody.test/dl/thing", 421, "nobody.test"},
		{"GET", "https://127.0.0.1/", 421, "127.0.0.1"}, // without a name
		{"GET", "https://registry-1.docker.io/v2/", 200, "{}"},
		{"GET", "https://registry-1.docker.io/v2/own/manifests/1", 404, "MANIFEST_UNKNOWN"}, // it belongs to another host
		{"POST", "https://images.publisher.test/v2/own/manifests/1", 405, "read-only"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, c.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(r)
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != c.code || !strings.Contains(string(body), c.want) {
			t.Errorf("%s: %d %q, %v", c.url, answer.StatusCode, body, err)
		}
		if answer.ProtoMajor != 2 {
			t.Errorf("%s: HTTP/%d", c.url, answer.ProtoMajor)
		}
	}
}

// fileOf returns a file of an image, reading its layers as they would be unpacked.
func fileOf(t *testing.T, image v1.Image, at string) string {
	t.Helper()
	in := mutate.Extract(image)
	defer in.Close()
	for r := tar.NewReader(in); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return ""
		}
		if err != nil {
			t.Fatal(err)
		}
		if path.Join("/", h.Name) == at {
			data, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			return string(data)
		}
	}
}

// TestImagesTrustTheGate: an image that is requested by tag trusts the authority in addition to
// its own; one that is requested by digest is unchanged.
func TestImagesTrustTheGate(t *testing.T) {
	client, a := openGate(t)
	for image, was := range map[string]string{"images.publisher.test/own:1": "its own\n", "busybox:1": machineList} {
		ref, err := name.ParseReference(image)
		if err != nil {
			t.Fatal(err)
		}
		got, err := remote.Image(ref, remote.WithTransport(client.Transport))
		if err != nil {
			t.Fatalf("%s: %v", image, err)
		}
		if list := fileOf(t, got, trustFile); list != was+string(a.pem) {
			t.Errorf("%s trusts %q", image, list)
		}
		if app := fileOf(t, got, "/app"); app == "" {
			t.Errorf("%s has lost its program", image)
		}
		head, err := remote.Head(ref, remote.WithTransport(client.Transport))
		if err != nil {
			t.Fatal(err)
		}
		digest, err := got.Digest()
		if err != nil || head.Digest != digest {
			t.Errorf("%s: %s, then %s (%v)", image, digest, head.Digest, err)
		}
		again, err := remote.Image(ref.Context().Digest(digest.String()), remote.WithTransport(client.Transport))
		if err != nil {
			t.Fatalf("%s by the digest that the tag gave: %v", image, err)
		}
		if list := fileOf(t, again, trustFile); list != was+string(a.pem) {
			t.Errorf("%s by digest trusts %q", image, list)
		}
	}
}

func TestAnImageByDigestIsAsItWas(t *testing.T) {
	client, _ := openGate(t)
	dir := newBundle(t) // the same contents
	i := newImages(dir, nil, nil, nil)
	p, err := newPublishers(dir, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	digest, ok := p.bundle.ImageDigest("images.publisher.test/own:1")
	if !ok {
		t.Fatal("there is no such image")
	}
	ref, err := name.NewDigest("images.publisher.test/own@" + digest)
	if err != nil {
		t.Fatal(err)
	}
	got, err := remote.Index(ref, remote.WithTransport(client.Transport))
	if err != nil {
		t.Fatal(err)
	}
	want, err := i.find(digest)
	if err != nil {
		t.Fatal(err)
	}
	h, err := want.Digest()
	if err != nil {
		t.Fatal(err)
	}
	image, err := got.Image(h)
	if err != nil {
		t.Fatal(err)
	}
	if list := fileOf(t, image, trustFile); list != "its own\n" {
		t.Errorf("it trusts %q", list)
	}
}

// TestTrustOfLayers: the uppermost layer wins, and what a layer removes is gone.
func TestTrustOfLayers(t *testing.T) {
	const at = "etc/ssl/certs/ca-certificates.crt"
	lower := entry{at, "lower"}
	for _, c := range []struct {
		name   string
		layers [][]entry
		want   string
	}{
		{"none", [][]entry{{{"app", "x"}}}, ""},
		{"the lowest", [][]entry{{lower}, {{"app", "x"}}}, "lower"},
		{"the uppermost", [][]entry{{lower}, {{"./" + at, "upper"}}, {{"app", "x"}}}, "upper"},
		{"removed", [][]entry{{lower}, {{"etc/ssl/certs/.wh.ca-certificates.crt", ""}}}, ""},
		{"with its folder", [][]entry{{lower}, {{"etc/.wh.ssl", ""}}}, ""},
		{"a folder anew", [][]entry{{lower}, {{"etc/ssl/.wh..wh..opq", ""}}}, ""},
		{"a folder anew, with it", [][]entry{{lower}, {{"etc/ssl/.wh..wh..opq", ""}, {at, "upper"}}}, "upper"},
		{"another removed", [][]entry{{lower}, {{"etc/ssl/certs/.wh.other.crt", ""}, {"var/.wh..wh..opq", ""}}}, "lower"},
	} {
		var layers []v1.Layer
		for _, l := range c.layers {
			layers = append(layers, layerWith(t, l...))
		}
		got, err := trustFileOf(imageWith(t, layers...))
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
}
