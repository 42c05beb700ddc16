// Package run is nodeup: it puts the machine, the store and the platform together that
// package agent makes a member of a cluster of.
//
// It must not know any platform, nor read flags and the environment itself.
package run

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	cryptorand "crypto/rand"

	"golang.org/x/net/http/httpproxy"

	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/clock"
	"kops.local/kops/internal/engine/exec"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/agent"
	"kops.local/kops/internal/node/agent/report"
	"kops.local/kops/internal/node/host"
	"kops.local/kops/internal/platform/onmachine"
)

// Options are what the command line says, and the world that the program runs in.
type Options struct {
	// Conf is the file with the boot configuration, Cache the folder of fetched files,
	// Root where the machine's file system begins, Report the boot report below it.
	Conf, Cache, Root, Report string
	// Retries is how often a failed run is repeated; negative: without limit.
	Retries int
	// At most one of these is set; none: the machine is brought to its desired state.
	DryRun, Install, Renew, WatchNode, Apply bool

	// Version is this program's.
	Version   string
	Platforms []onmachine.Platform
	Out, Err  io.Writer
	Env       func(string) string
	// Privileged says that the program may do everything.
	Privileged bool
	// Clock is the machine's.
	Clock Clock
}

// Clock is time as the program sees it. The zero value is the clock of the machine.
type Clock struct {
	At   func() time.Time
	Wait func(context.Context, time.Duration) error
}

// Now is the time.
func (c Clock) Now() time.Time {
	if c.At != nil {
		return c.At()
	}
	return time.Now()
}

// Sleep waits, or returns the context's error when it ends first.
func (c Clock) Sleep(ctx context.Context, d time.Duration) error {
	if c.Wait != nil {
		return c.Wait(ctx, d)
	}
	return clock.Sleep(ctx, d)
}

// Nodeup does what the options say.
func Nodeup(ctx context.Context, o Options) error {
	if o.WatchNode {
		return o.watchNode(ctx)
	}
	boot, err := os.ReadFile(o.Conf)
	if err != nil {
		return fmt.Errorf("read the boot configuration: %w", err)
	}
	switch {
	case o.Install:
		return o.install(ctx)
	case o.Apply:
		return o.apply(ctx, boot)
	}
	a, done, err := o.agent(ctx)
	if err != nil {
		return err
	}
	defer done()
	if o.DryRun {
		return a.Preview(ctx, boot, o.Out)
	}
	release, err := lock(o.Root)
	if err != nil {
		return err
	}
	defer release()
	if o.Renew {
		return a.Renew(ctx, boot)
	}
	return a.Converge(ctx, boot)
}

// lock keeps a second nodeup from changing the machine meanwhile. The kernel
// takes the lock away however this program ends.
func lock(root string) (release func(), err error) {
	at := filepath.Join(root, "/run/nodeup.lock")
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return nil, fmt.Errorf("lock the machine: %w", err)
	}
	f, err := os.OpenFile(at, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the machine: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil { //nolint:gosec // a file's number is small
		_ = f.Close() // nothing was written
		return nil, fault.Wrap(fault.Conflict, fmt.Errorf("another nodeup is changing the machine: lock %s: %w", at, err),
			"wait until it has ended; its news: journalctl --follow --unit="+unitName)
	}
	return func() { _ = f.Close() }, nil
}

// agent builds the agent and its world. The caller must call done at the end.
func (o Options) agent(ctx context.Context) (a *agent.Agent, done func(), err error) {
	client := host.NewHTTPClient(o.proxy())
	store := o.source(client)
	m := &host.Machine{Root: o.Root, Chown: o.Privileged, Fetch: store.open, Cache: o.Cache, Now: o.Clock.Now, Systemd: host.Offline{Root: o.Root}}
	done = func() {}
	if filepath.Clean(o.Root) == "/" {
		systemd, err := host.Connect(ctx)
		if err != nil {
			return nil, nil, err
		}
		m.Command, m.Systemd, done = host.Run, systemd, systemd.Close
	}
	p := agent.Probe{Root: o.Root, Arch: runtime.GOARCH, Hostname: os.Hostname, Addresses: net.InterfaceAddrs, Command: m.Command,
		Resolve: net.DefaultResolver.LookupHost, Platforms: o.Platforms, World: o.world()}
	r := &reporter{err: o.Err, path: filepath.Join(o.Root, o.Report), metrics: filepath.Join(o.Root, report.Metrics), dry: o.DryRun, plain: o.Renew || o.Apply, now: o.Clock.Now}
	a = &agent.Agent{
		Machine: m, Store: store, Join: o.join, Detect: p.Detect, Launched: o.launched,
		Issuer:  pki.Issuer{Rand: cryptorand.Reader, Now: o.Clock.Now, Generate: newKey},
		Clock:   exec.Clock{Now: o.Clock.Now, Sleep: o.Clock.Sleep, Jitter: rand.Float64},
		Version: o.Version, Retries: o.Retries, OnReport: r.tell,
	}
	if o.Renew {
		a.Last = r.last()
	}
	return a, done, nil
}

// newKey makes the key of a certificate of this machine's: one of RSA takes a
// small machine most of a second, and it needs a score of them.
func newKey() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), cryptorand.Reader) }

// proxy is what the environment says of proxies.
func (o Options) proxy() func(*http.Request) (*url.URL, error) {
	get := func(lower, upper string) string {
		if v := o.Env(lower); v != "" {
			return v
		}
		return o.Env(upper)
	}
	c := httpproxy.Config{HTTPProxy: o.Env("http_proxy"), HTTPSProxy: get("https_proxy", "HTTPS_PROXY"), NoProxy: get("no_proxy", "NO_PROXY")}
	find := c.ProxyFunc()
	return func(r *http.Request) (*url.URL, error) { return find(r.URL) }
}
