package rehearsal

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"strings"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/rehearsal"
)

// program emulates Cloud Storage, on a port of its own network namespace.
const program, port = "fake-gcs-server", "80"

// objectServer is the Cloud Storage emulator. It listens in its own network namespace.
type objectServer struct {
	*rehearsal.Program
	http.Handler
}

// findObjectServer returns the path of the emulator's program.
func findObjectServer() (string, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return "", fault.Wrap(fault.Permanent, fmt.Errorf("the rehearsal emulates buckets with %s, which this host does not have: %w", program, err),
			"run: go install github.com/fsouza/fake-gcs-server@latest")
	}
	return path, nil
}

func startObjectServer(ctx context.Context, o rehearsal.Options) (*objectServer, error) {
	path, err := findObjectServer()
	if err != nil {
		return nil, err
	}
	s := &objectServer{}
	s.Program, err = rehearsal.StartProgram(ctx, program, exec.Command(path, "-scheme", "http", "-host", "127.0.0.1", "-port", port, "-backend", "memory", "-log-level", "info",
		"-public-host", "storage.googleapis.com", "-external-url", "https://storage.googleapis.com"), "server started", o.Log)
	if err != nil {
		return nil, err
	}
	behind := &url.URL{Scheme: "http", Host: net.JoinHostPort("127.0.0.1", port)}
	transport := &http.Transport{DialContext: s.DialContext, MaxIdleConnsPerHost: 64}
	s.Handler = &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(behind)
		r.Out.Host = r.In.Host
	}}
	for _, b := range o.Stores {
		if err := s.createBucket(ctx, &http.Client{Transport: transport}, behind, b); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// createBucket creates a bucket.
func (s *objectServer) createBucket(ctx context.Context, client *http.Client, at *url.URL, name string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, at.String()+"/storage/v1/b", strings.NewReader(fmt.Sprintf(`{"name":%q}`, name)))
	if err != nil {
		return err
	}
	answer, err := client.Do(r)
	if err == nil {
		err = answer.Body.Close()
	}
	if err != nil {
		return fmt.Errorf("create the bucket %s: %w", name, err)
	}
	return nil
}
