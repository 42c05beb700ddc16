// Package run is nodeup: it connects the machine, the store and the platform for
// package agent, which makes the machine a member of a cluster.
//
// It must not know any platform, nor read flags or the environment itself.
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

// Options holds the command line's settings and the program's environment.
type Options struct {
	// Conf is the file with the boot configuration, Cache the folder of fetched files,
	// Root the root of the machine's file system, and Report the path of the boot
	// report relative to it.
	Conf, Cache, Root, Report string
	// Retries is how often a failed run is repeated; negative means without limit.
	Retries int
	// At most one of these is set; if none is, the machine is brought to its desired state.
	DryRun, Install, Renew, WatchNode, Apply bool

	// Version is the version of this program.
	Version   string
	Platforms []onmachine.Platform
	Out, Err  io.Writer
	Env       func(string) string
	// Privileged reports whether the program runs with root's rights.
	Privileged bool
	// Clock is the machine's clock.
	Clock Clock
}

// Clock provides the program's time. The zero value is the machine's clock.
type Clock struct {
	At   func() time.Time
	Wait func(context.Context, time.Duration) error
}

// Now returns the current time.
func (c Clock) Now() time.Time {
	if c.At != nil {
		return c.At()
	}
	return time.Now()
}

// Sleep waits for d, or returns the context's error if it ends first.
func (c Clock) Sleep(ctx context.Context, d time.Duration) error {
	if c.Wait != nil {
		return c.Wait(ctx, d)
	}
	return clock.Sleep(ctx, d)
}

// Nodeup runs nodeup according to the options.
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
// releases the lock however this program ends.
func lock(root string) (release func(), err error) {
	at := filepath.Join(root, "/run/nodeup.lock")
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return nil, fmt.Errorf("lock the machine: %w", err)
	}
	f, err := os.OpenFile(at, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the machine: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil { //nolint:gosec // file descriptors are small
		_ = f.Close() // nothing was written
		return nil, fault.Wrap(fault.Conflict, fmt.Errorf("another nodeup is changing the machine: lock %s: %w", at, err),
			"wait until it ends; to follow it: journalctl --follow --unit="+unitName)
	}
	return func() { _ = f.Close() }, nil
}

// agent builds the agent and its dependencies. The caller must call done when it is finished.
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
		Machine: m, Store: store, Join: o.join, Detect: p.Detect, PlatformSecrets: o.platformSecrets, Launched: o.completeLaunch,
		Issuer:  pki.Issuer{Rand: cryptorand.Reader, Now: o.Clock.Now, Generate: newKey},
		Clock:   exec.Clock{Now: o.Clock.Now, Sleep: o.Clock.Sleep, Jitter: rand.Float64},
		Version: o.Version, Retries: o.Retries, OnReport: r.update,
	}
	if o.Renew {
		a.Last = r.lastReport()
	}
	return a, done, nil
}

// newKey generates a key for one of this machine's certificates: an RSA key takes
// a small machine most of a second, and it needs about twenty keys.
func newKey() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), cryptorand.Reader) }

// proxy returns the proxy settings of the environment.
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
