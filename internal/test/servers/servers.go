// Package servers runs the programs that stand in for external servers in tests.
//
// A test that needs a program which is not installed is skipped with a loud message,
// or fails if the environment has CI=true. It is for tests only, and must not
// know what any program does.
package servers

import (
	"bytes"
	"context"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// startLimit is how long a server may take to respond; some need 2 s, and more on a busy machine.
const startLimit = 90 * time.Second

// SkipMissing skips a test that cannot run here, with a loud message, or fails it in CI.
func SkipMissing(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("CANNOT RUN: %s", why)
	}
	t.Skipf("SKIPPED, NOTHING WAS TESTED: %s", why)
}

// Run starts a server and stops it, with all its children, when the test ends. It
// waits until url finds the address in the server's output, and until the server
// responds there below path, with any status; it returns the address.
func Run(t testing.TB, cmd *exec.Cmd, url func(said string) string, path string) (string, error) {
	t.Helper()
	return run(t, cmd, url, func(ctx context.Context, at string) error { return probe(ctx, at+path) })
}

func run(t testing.TB, cmd *exec.Cmd, url func(said string) string, ready func(ctx context.Context, at string) error) (string, error) {
	t.Helper()
	var said output
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", cmd.Path, err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // the exit status does not matter
		close(ended)
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may have exited already
		<-ended
	})
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var err error
	for {
		if at := url(said.String()); at != "" {
			if err = ready(ctx, at); err == nil {
				return at, nil
			}
		}
		select {
		case <-tick.C:
		case <-ended:
			return "", fmt.Errorf("%s ended:\n%s", cmd.Path, said.String())
		case <-ctx.Done():
			return "", fmt.Errorf("%s does not come up in %v: %w\n%s", cmd.Path, startLimit, err, said.String())
		}
	}
}

// RunAt starts a server at a free address of this machine, which is passed to command, and
// returns its URL, once it responds below path.
func RunAt(t testing.TB, command func(address string) *exec.Cmd, path string) string {
	t.Helper()
	return "http://" + runAt(t, command, func(ctx context.Context, at string) error { return probe(ctx, "http://"+at+path) })
}

// RunTCP is RunAt for a server that does not speak HTTP. It returns the address.
func RunTCP(t testing.TB, command func(address string) *exec.Cmd) string {
	t.Helper()
	return runAt(t, command, func(ctx context.Context, at string) error {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", at)
		if err != nil {
			return err
		}
		return c.Close()
	})
}

// runAt retries: another process may take the address before the server does, which then exits.
func runAt(t testing.TB, command func(address string) *exec.Cmd, ready func(ctx context.Context, at string) error) string {
	t.Helper()
	var err error
	for range 3 {
		address := fmt.Sprintf("127.0.0.1:%d", FreePorts(t, 1)[0])
		if _, err = run(t, command(address), func(string) string { return address }, ready); err == nil {
			return address
		}
	}
	t.Fatal(err)
	return ""
}

// FreePorts returns n unused TCP ports of the loopback address. They are below the ports that systems
// give to connections, one of which could take a port before a server does.
func FreePorts(t testing.TB, n int) []int {
	t.Helper()
	var out []int
	for tries := 0; len(out) < n; tries++ {
		port := 10000 + mathrand.IntN(10000) //nolint:gosec // it need not be secret
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		switch {
		case err == nil:
			defer l.Close() //nolint:errcheck // it was only needed for its port
			out = append(out, port)
		case tries == 1000:
			t.Fatal(err)
		}
	}
	return out
}

// probe sends one HTTP request to url.
func probe(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

// output stores a server's output, for the message when it fails.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.buf.Len() > 64<<10 {
		o.buf.Reset()
	}
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}
