package main

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/node/etcd/certs"
	"kops.local/kops/internal/node/etcd/etcdtest"
	"kops.local/kops/internal/store"
)

// asProgram makes the test binary act as etcd-manager.
const asProgram = "ETCD_MANAGER_IS_TESTED"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0)
	}
	// The clusters mostly wait, for elections and the like: all run in parallel, however few the processors.
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// testCluster is a set of managers as processes on this machine, with real etcd.
type testCluster struct {
	t              *testing.T
	programs       string
	dir            string
	store          store.Store
	peers          []*testPeer
	tls            *tls.Config
	registry       string // of machines; they find each other through it, not by seeds
	usesStaticList bool   // they find each other by a list of names and addresses
}

// testPeer is one machine: a folder for its disk, and its own address or ports.
type testPeer struct {
	id, dir, host                  string
	hosts                          string // its /etc/hosts, if it uses names
	grpc, peer, client, quarantine string
	cmd                            *exec.Cmd
	machine                        string // name in the registry
	plain                          bool   // its etcd uses no TLS
	more                           []string
}

func newCluster(t *testing.T, spec etcd.Spec, ids ...string) *testCluster {
	t.Helper()
	if os.Getenv("KOPS_E2E") == "" {
		t.Skip("NOT RUN: whole etcd clusters need a quiet machine; `make e2e` runs them")
	}
	c := &testCluster{t: t, programs: etcdtest.Programs(t), dir: t.TempDir()}
	c.store = store.NewFolder(filepath.Join(c.dir, "store"))
	if err := etcd.WriteSpec(t.Context(), c.store, spec); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(c.path("pki"), 0o700); err != nil {
		t.Fatal(err)
	}
	etcdtest.Authorities(t, c.path("pki"))
	a, err := certs.Load(c.path("pki"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	apiserver := a.Present(a.Clients, pki.Client, "kube-apiserver")
	c.tls = &tls.Config{RootCAs: certs.Pool(a.Clients), GetClientCertificate: apiserver.ToServers}
	for _, id := range ids {
		c.add(id)
	}
	t.Cleanup(c.stopAll)
	return c
}

// lastPort is the last port that a test used. They are below the ephemeral ports of the
// system.
var lastPort atomic.Int32

func freePort(t *testing.T) string {
	t.Helper()
	lastPort.CompareAndSwap(0, int32(20000+os.Getpid()%1000*10))
	for range 1000 {
		port := strconv.Itoa(int(lastPort.Add(1)))
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			_ = l.Close() // the test uses it now
			return port
		}
	}
	t.Fatal("no port is free")
	return ""
}

func (c *testCluster) path(name string) string { return filepath.Join(c.dir, name) }

// add creates a machine; its manager is not started.
func (c *testCluster) add(id string) *testPeer {
	c.t.Helper()
	p := &testPeer{id: id, dir: c.path("disk-" + id), host: "127.0.0.1"}
	for _, to := range []*string{&p.grpc, &p.peer, &p.client, &p.quarantine} {
		*to = freePort(c.t)
	}
	c.peers = append(c.peers, p)
	return p
}

// start starts a machine's manager.
func (c *testCluster) start(p *testPeer) {
	c.t.Helper()
	name := "__name__"
	if p.hosts == "" {
		name = p.host
	}
	url := func(port string) string { return p.scheme() + name + ":" + port }
	args := []string{"--cluster-name=etcd", "--backup-store=file://" + c.path("store"), "--pki-dir=" + c.path("pki"), "--programs=" + c.programs,
		"--address=" + p.host, "--listen-address=" + p.host, "--etcd-address=" + p.host, "--grpc-port=" + p.grpc,
		"--client-urls=" + url(p.client), "--peer-urls=" + url(p.peer), "--quarantine-client-urls=" + url(p.quarantine)}
	if p.plain {
		args = append(args, "--etcd-insecure=true")
	}
	args = append(append(args, c.discoveryFlags(p)...), p.more...)
	p.cmd = exec.Command(os.Args[0], args...)
	if p.hosts != "" {
		script := `mount --bind "$0" /etc/hosts && exec "$@" --dns-suffix=.internal.example.com`
		p.cmd = exec.Command("unshare", append([]string{"-m", "sh", "-c", script, p.hosts, os.Args[0]}, args...)...)
	}
	log, err := os.OpenFile(c.path(p.id+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		c.t.Fatal(err)
	}
	defer log.Close() // the process has its own descriptor
	p.cmd.Env = append(os.Environ(), asProgram+"=1")
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := p.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
}

// scheme returns the scheme of the URLs of a machine's etcd.
func (p *testPeer) scheme() string {
	if p.plain {
		return "http://"
	}
	return "https://"
}

// discoveryFlags returns the flags by which a machine finds its disk and the others, with their
// intervals.
func (c *testCluster) discoveryFlags(p *testPeer) []string {
	if c.registry != "" { // with the default intervals of a manifest
		return []string{"--volume-provider=local", "--volume-tag=" + localTag, "--disks-path=" + filepath.Dir(p.dir), "--machines-path=" + c.registry}
	}
	var seeds []string
	for _, q := range c.peers {
		seeds = append(seeds, q.host+":"+q.grpc)
	}
	find := "--seeds=" + strings.Join(seeds, ",")
	if c.usesStaticList {
		var nodes []string
		for _, q := range c.peers {
			nodes = append(nodes, fmt.Sprintf(`{"id":%q,"ip":[%q]}`, q.id, q.host))
		}
		find = `--static-config={"nodes":[` + strings.Join(nodes, ",") + `]}`
	}
	return []string{"--peer-id=" + p.id, "--data-dir=" + p.dir, find, "--seeds-path=",
		"--greeting-interval=500ms", "--peer-timeout=2s", "--progress-interval=100ms", "--command-interval=500ms", "--replace-after=3s", "--backup-interval=2s"}
}

func (c *testCluster) startAll() {
	for _, p := range c.peers {
		c.start(p)
	}
}

// kill kills a manager immediately; its etcd exits on its own.
func (c *testCluster) kill(p *testPeer) {
	c.t.Helper()
	_ = p.cmd.Process.Kill() // it may have exited
	_ = p.cmd.Wait()         // it was killed
	pid, ok := p.etcdPID()
	c.eventually("the etcd of "+p.id+" ends with its manager", 10*time.Second, func() bool { return !ok || syscall.Kill(pid, 0) != nil })
	p.cmd = nil
}

// destroy removes a machine with all its processes and data.
func (c *testCluster) destroy(p *testPeer) {
	c.t.Helper()
	_ = p.cmd.Process.Kill() // it may have exited
	if pid, ok := p.etcdPID(); ok {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have exited
	}
	c.kill(p)
	if err := os.RemoveAll(p.dir); err != nil {
		c.t.Fatal(err)
	}
}

func (c *testCluster) stopAll() {
	for _, p := range c.peers {
		if p.cmd != nil {
			_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have exited
		}
	}
	for _, p := range c.peers {
		if p.cmd == nil {
			continue
		}
		_ = p.cmd.Wait() // what it returns does not matter here
		if pid, ok := p.etcdPID(); ok && syscall.Kill(pid, 0) == nil {
			c.t.Errorf("the etcd of %s outlives its manager", p.id)
		}
		if c.t.Failed() {
			text, _ := os.ReadFile(c.path(p.id + ".log"))
			c.t.Logf("log of %s:\n%s", p.id, managerLines(text))
		}
	}
}

// managerLines returns the lines of a log that are not etcd's own.
func managerLines(log []byte) string {
	var out []string
	for line := range strings.Lines(string(log)) {
		if !strings.HasPrefix(line, "{") {
			out = append(out, line)
		}
	}
	return strings.Join(out[max(0, len(out)-80):], "")
}

// etcdPID returns the PID of etcd according to the manager.
func (p *testPeer) etcdPID() (int, bool) {
	text, err := os.ReadFile(filepath.Join(p.dir, "etcd.pid"))
	if err != nil || len(text) == 0 {
		return 0, false
	}
	pid, err := strconv.Atoi(strings.Fields(string(text))[0])
	return pid, err == nil
}

func (c *testCluster) eventually(what string, within time.Duration, ok func() bool) time.Duration {
	c.t.Helper()
	start := time.Now()
	for time.Since(start) < within {
		if ok() {
			return time.Since(start)
		}
		time.Sleep(20 * time.Millisecond)
	}
	c.t.Fatalf("not within %s: %s", within, what)
	return 0
}

// client connects to the members at some machines.
func (c *testCluster) client(peers ...*testPeer) *clientv3.Client {
	c.t.Helper()
	var endpoints []string
	for _, p := range peers {
		endpoints = append(endpoints, p.scheme()+p.host+":"+p.client)
	}
	cli, err := clientv3.New(clientv3.Config{Endpoints: endpoints, TLS: c.tls, Logger: zap.NewNop(), DialTimeout: time.Second})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = cli.Close() }) // nothing is pending
	return cli
}

// awaitMembers waits until exactly the members of all given machines are voters that serve clients
// with a version.
func (c *testCluster) awaitMembers(version string, peers ...*testPeer) time.Duration {
	c.t.Helper()
	clients := make([]*clientv3.Client, len(peers))
	for i, p := range peers {
		clients[i] = c.client(p)
	}
	var last string
	start := time.Now()
	for time.Since(start) < 60*time.Second {
		if last = c.whyIncomplete(version, peers, clients); last == "" {
			return time.Since(start)
		}
		time.Sleep(50 * time.Millisecond)
	}
	c.t.Fatalf("not whole in 60 s: %s", last)
	return 0
}

func (c *testCluster) whyIncomplete(version string, peers []*testPeer, clients []*clientv3.Client) string {
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Second)
	defer cancel()
	for i, p := range peers {
		status, err := clients[i].Status(ctx, clients[i].Endpoints()[0])
		if err != nil || status.IsLearner || status.Version != version {
			return fmt.Sprintf("%s: %v, %v", p.id, status, err)
		}
	}
	list, err := clients[0].MemberList(ctx)
	if err != nil || len(list.Members) != len(peers) {
		return fmt.Sprintf("%v, %v", list, err)
	}
	return ""
}

func (c *testCluster) putKey(cli *clientv3.Client, key, value string) {
	c.t.Helper()
	c.eventually("put "+key, 15*time.Second, func() bool {
		ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Second)
		defer cancel()
		_, err := cli.Put(ctx, key, value)
		return err == nil
	})
}

func (c *testCluster) get(cli *clientv3.Client, key string) string {
	c.t.Helper()
	var value string
	c.eventually("get "+key, 15*time.Second, func() bool {
		ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Second)
		defer cancel()
		r, err := cli.Get(ctx, key)
		if err == nil && len(r.Kvs) == 1 {
			value = string(r.Kvs[0].Value)
		}
		return err == nil
	})
	return value
}

// backups lists the complete back-ups, oldest first.
func (c *testCluster) backups() []string {
	all, err := etcd.Backups(c.t.Context(), c.store)
	if err != nil {
		c.t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(b etcd.Backup) bool { return !b.Complete })
	var out []string
	for _, b := range all {
		out = append(out, b.Name)
	}
	return out
}
