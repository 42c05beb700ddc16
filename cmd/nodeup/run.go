package main

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	cryptorand "crypto/rand"

	"golang.org/x/net/http/httpproxy"

	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/clock"
	"kops.local/kops/internal/engine/exec"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/agent"
	"kops.local/kops/internal/node/agent/node"
	"kops.local/kops/internal/node/agent/presence"
	"kops.local/kops/internal/node/agent/report"
	"kops.local/kops/internal/node/host"
)

// system is the world that the program runs in.
type system struct {
	Out, Err io.Writer
	Env      func(string) string
	// Root says that the program may do everything.
	Root bool
}

// options are the command line.
type options struct {
	conf, cache, target, root, report string
	retries                           int
	dryRun, install, renew, checkNode bool
}

const usage = `nodeup makes a machine a member of its cluster.

It reads who the machine is from the file of --conf, gets the machine's
configuration, and brings packages, files, certificates and services into the
state that it says. Run again, it changes only what differs.

  nodeup --conf /opt/kops/conf/kube_env.yaml                         do it
  nodeup --conf /opt/kops/conf/kube_env.yaml --dry-run               show what would be done
  nodeup --conf /opt/kops/conf/kube_env.yaml --install-systemd-unit  do it now and at every start
  nodeup --conf /opt/kops/conf/kube_env.yaml --renew                 only renew certificates, as a timer does twice a day
  nodeup --conf /opt/kops/conf/kube_env.yaml --check-node            start the kubelet anew if its node is gone, as a timer does

Flags:
`

func parse(args []string, out io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("nodeup", flag.ContinueOnError)
	f.SetOutput(out)
	f.Usage = func() {
		fmt.Fprint(out, usage) //nolint:errcheck // nothing could be told
		f.PrintDefaults()
	}
	f.StringVar(&o.conf, "conf", "", "`file` with the boot configuration")
	f.StringVar(&o.cache, "cache", "/var/cache/nodeup", "`folder` for fetched files")
	f.IntVar(&o.retries, "retries", -1, "how often a run that failed begins anew; -1 is without end")
	f.StringVar(&o.target, "target", "direct", "direct, or dryrun to only show what would be done")
	f.BoolVar(&o.dryRun, "dry-run", false, "only show what would be done")
	f.BoolVar(&o.dryRun, "dryrun", false, "the same as --dry-run")
	f.BoolVar(&o.renew, "renew", false, "only issue certificates anew that are near their end, and start anew what reads them")
	f.BoolVar(&o.checkNode, "check-node", false, "only see whether the machine's node is in the cluster, and start the kubelet anew if it is not")
	f.BoolVar(&o.install, "install-systemd-unit", false, "write a unit that runs nodeup at every start, start it, and end")
	f.StringVar(&o.root, "root", "/", "`folder` that stands for the machine's file system; no program is run and no service started in another than /")
	f.StringVar(&o.report, "report", report.File, "`file` for the boot report, below the root")
	f.Int("v", 0, "accepted for compatibility; has no effect")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	case o.conf == "":
		return o, errors.New("--conf is needed: the file with the boot configuration")
	case o.target != "direct" && o.target != "dryrun":
		return o, fmt.Errorf("--target is direct or dryrun, and not %q", o.target)
	}
	o.dryRun = o.dryRun || o.target == "dryrun"
	if (o.renew || o.checkNode) && (o.dryRun || o.install) || o.renew && o.checkNode {
		return o, errors.New("of --renew, --check-node, --dry-run and --install-systemd-unit only one goes")
	}
	return o, nil
}

// run is the program; it returns the exit code.
func run(ctx context.Context, s system, args []string) int {
	o, err := parse(args, s.Err)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err == nil {
		err = s.run(ctx, o)
	}
	if err == nil {
		return 0
	}
	fmt.Fprintf(s.Err, "Error: %v\n", err) //nolint:errcheck // nothing could be told
	if r := fault.Remedy(err); r != "" && !strings.Contains(err.Error(), r) {
		fmt.Fprintf(s.Err, "%s\n", r) //nolint:errcheck // nothing could be told
	}
	return 1
}

func (s system) run(ctx context.Context, o options) error {
	if o.checkNode {
		return s.checkNode(ctx, o)
	}
	boot, err := os.ReadFile(o.conf)
	if err != nil {
		return fmt.Errorf("read the boot configuration: %w", err)
	}
	if o.install {
		return s.install(ctx, o)
	}
	a, done, err := s.agent(ctx, o)
	if err != nil {
		return err
	}
	defer done()
	if o.dryRun {
		return a.Preview(ctx, boot, s.Out)
	}
	release, err := lock(o.root)
	if err != nil {
		return err
	}
	defer release()
	if o.renew {
		return a.Renew(ctx, boot)
	}
	return a.Converge(ctx, boot)
}

// checkNode looks after the machine's node. Nothing but the kubelet is touched, so it
// does not wait for a nodeup that is at work.
func (s system) checkNode(ctx context.Context, o options) error {
	systemd, err := host.Connect(ctx)
	if err != nil {
		return err
	}
	defer systemd.Close()
	tell := func(line string) { fmt.Fprintf(s.Err, "<5>%s\n", line) } //nolint:errcheck // the journal's level "notice"; nothing could be told
	c, err := presence.New(o.root, node.KubeletKubeconfig, systemd, time.Now, tell)
	if c == nil || err != nil {
		return err
	}
	return c.Once(ctx)
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

// agent puts the machine and its world together. done is to be called at the end.
func (s system) agent(ctx context.Context, o options) (a *agent.Agent, done func(), err error) {
	client := host.NewHTTPClient(s.proxy())
	store := s.store(client)
	m := &host.Machine{Root: o.root, Chown: s.Root, Fetch: store.open, Cache: o.cache, Now: time.Now, Systemd: host.Offline{Root: o.root}}
	done = func() {}
	if filepath.Clean(o.root) == "/" {
		systemd, err := host.Connect(ctx)
		if err != nil {
			return nil, nil, err
		}
		m.Command, m.Systemd, done = host.Run, systemd, systemd.Close
	}
	p := agent.Probe{Root: o.root, Arch: runtime.GOARCH, Hostname: os.Hostname, Addresses: net.InterfaceAddrs, Command: m.Command,
		Resolve: net.DefaultResolver.LookupHost, AWS: s.aws()}
	r := &reporter{err: s.Err, path: filepath.Join(o.root, o.report), dry: o.dryRun}
	a = &agent.Agent{
		Machine: m, Store: store, Join: func(b *nodeconfig.Boot, failed func(error)) (agent.Joiner, error) { return s.join(o, b, failed) }, Detect: p.Detect, Launched: s.launched,
		Issuer:  pki.Issuer{Rand: cryptorand.Reader, Now: time.Now, Generate: newKey},
		Clock:   exec.Clock{Now: time.Now, Sleep: clock.Sleep, Jitter: rand.Float64},
		Version: version, Retries: o.retries, Told: r.told,
	}
	return a, done, nil
}

// newKey makes the key of a certificate of this machine's: one of RSA takes a
// small machine most of a second, and it needs a score of them.
func newKey() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), cryptorand.Reader) }

// proxy is what the environment says of proxies.
func (s system) proxy() func(*http.Request) (*url.URL, error) {
	get := func(lower, upper string) string {
		if v := s.Env(lower); v != "" {
			return v
		}
		return s.Env(upper)
	}
	c := httpproxy.Config{HTTPProxy: s.Env("http_proxy"), HTTPSProxy: get("https_proxy", "HTTPS_PROXY"), NoProxy: get("no_proxy", "NO_PROXY")}
	find := c.ProxyFunc()
	return func(r *http.Request) (*url.URL, error) { return find(r.URL) }
}

// reporter writes the boot report to its file, and its news to the console.
type reporter struct {
	err  io.Writer
	path string
	dry  bool

	mu   sync.Mutex
	seen map[string]string
}

func (r *reporter) told(rep report.Report) {
	if r.dry {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen == nil {
		r.seen = map[string]string{}
	}
	for _, p := range rep.Phases {
		news := fmt.Sprint(p.State, p.Error)
		if r.seen[p.Name] == news || p.State == report.Running && p.Error == "" {
			continue
		}
		r.seen[p.Name] = news
		line := fmt.Sprintf("nodeup: %s: %s after %.1f s", p.Name, p.State, p.Seconds)
		if p.Steps > 0 {
			line += fmt.Sprintf(", %d changed", p.Steps)
		}
		if p.Error != "" && p.State != report.Passed {
			line += ": " + p.Error
			if p.Remedy != "" {
				line += "; " + p.Remedy
			}
		}
		fmt.Fprintln(r.err, line) //nolint:errcheck // nothing could be told
	}
	r.write(rep)
}

// write replaces the file in one step. A report that cannot be written must not stop the machine.
func (r *reporter) write(rep report.Report) {
	fresh := r.path + ".new"
	err := os.MkdirAll(filepath.Dir(r.path), 0o755)
	if err == nil {
		var f *os.File
		if f, err = os.Create(fresh); err == nil {
			if err = errors.Join(rep.WriteJSON(f), f.Close()); err == nil {
				err = os.Rename(fresh, r.path)
			}
			_ = os.Remove(fresh) // of a failure; else it is not there
		}
	}
	if err != nil && r.seen["report"] == "" {
		r.seen["report"] = "told"
		fmt.Fprintf(r.err, "nodeup: the boot report is not written: %v\n", err) //nolint:errcheck // nothing could be told
	}
}
