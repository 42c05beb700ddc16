package rehearsal

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"kops.local/kops/internal/engine/clock"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/rehearsal"
)

// program emulates object storage, at an address in its own network namespace. It checks signatures, and
// the conditions of writes.
const program, objectAddress = "versitygw", "127.0.0.1:80"

// objectServer is the emulator of object storage. Its buckets are folders.
type objectServer struct {
	*rehearsal.Program
	http.Handler
}

// findObjectServer returns the path of the emulator's program.
func findObjectServer() (string, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return "", fault.Wrap(fault.Permanent, fmt.Errorf("the rehearsal emulates object storage with %s, which this host does not have: %w", program, err),
			"run: go install github.com/versity/versitygw/cmd/versitygw@latest")
	}
	return path, nil
}

func objectFolder(o rehearsal.Options) string { return filepath.Join(o.Dir, "objects") }

func startObjectServer(ctx context.Context, o rehearsal.Options) (*objectServer, error) {
	path, err := findObjectServer()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(objectFolder(o), 0o700); err != nil {
		return nil, err
	}
	s := &objectServer{}
	s.Program, err = rehearsal.StartProgram(ctx, program, exec.Command("env", "ROOT_ACCESS_KEY="+accessKey, "ROOT_SECRET_KEY="+secretKey,
		path, "--port", objectAddress, "--region", "us-east-1", "--keep-alive", "posix", objectFolder(o)), "service listening on", o.Log)
	if err != nil {
		return nil, err
	}
	if err := s.waitUntilItListens(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	behind := &url.URL{Scheme: "http", Host: objectAddress}
	s.Handler = &httputil.ReverseProxy{Transport: &http.Transport{DialContext: s.DialContext, MaxIdleConnsPerHost: 64}, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(behind)
		r.Out.Host = r.In.Host // it is signed
	}}
	return s, nil
}

// waitUntilItListens returns when the program accepts connections, soon after it has said so.
func (s *objectServer) waitUntilItListens(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		conn, err := s.DialContext(ctx, "tcp", objectAddress)
		if err == nil {
			return conn.Close()
		}
		if clock.Sleep(ctx, 20*time.Millisecond) != nil {
			return err
		}
	}
}
