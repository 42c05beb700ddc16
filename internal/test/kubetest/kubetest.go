// Package kubetest runs a real API server, with a real etcd, on the loopback
// address for the duration of a test.
//
// The programs are taken from the folder that the environment variable
// KOPS_KUBERNETES_BIN names, from the output of tools/kubernetes, or from PATH.
// If they are missing, the test is skipped, because building them takes minutes, or
// fails if the environment has CI=true.
package kubetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/test/servers"
	"kops.local/kops/internal/test/testkeys"
)

// startTimeout is how long the API server may take to start; it took 4 s on two cores.
const startTimeout = 90 * time.Second

// restartPause is the wait before a program is restarted.
const restartPause = 100 * time.Millisecond

// Programs finds kube-apiserver and etcd. If one is missing it skips the test,
// or fails it with CI=true.
func Programs(t testing.TB) (apiserver, etcd string) {
	t.Helper()
	apiserver, etcd = find("kube-apiserver", "kubernetes"), find("etcd", "etcd")
	if apiserver == "" || etcd == "" {
		const remedy = "no kube-apiserver or no etcd; run `make bundle`, or set KOPS_KUBERNETES_BIN to a folder with both"
		if os.Getenv("CI") == "true" {
			t.Fatal("CANNOT RUN: " + remedy)
		}
		t.Skip("SKIPPED, NOT TESTED: " + remedy)
	}
	return apiserver, etcd
}

// find returns the path of a program that tools/kubernetes builds under a name.
func find(program, source string) string {
	var candidates []string
	if dir := os.Getenv("KOPS_KUBERNETES_BIN"); dir != "" {
		candidates = append(candidates, filepath.Join(dir, program))
	}
	if cache, err := os.UserCacheDir(); err == nil {
		built, err := filepath.Glob(filepath.Join(cache, "kops", "build", source+"-v*-"+runtime.GOARCH, "bin", program))
		if err == nil && len(built) > 0 {
			candidates = append(candidates, built[len(built)-1]) // the newest version that sorts last
		}
	}
	for _, c := range candidates {
		if info, err := os.Stat(c); err == nil && info.Mode()&0o111 != 0 {
			return c
		}
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return ""
	}
	return path
}

// Start runs an API server until the test ends, and returns an administrator's
// client configuration. One start takes seconds: share it among subtests.
func Start(t testing.TB) *rest.Config {
	t.Helper()
	return Serve(t, "--etcd-servers="+Etcd(t))
}

// Etcd runs an etcd until the test ends, and returns its URL.
func Etcd(t testing.TB) string {
	t.Helper()
	_, etcd := Programs(t)
	dir := t.TempDir()
	ports := servers.FreePorts(t, 2)
	store := fmt.Sprintf("http://127.0.0.1:%d", ports[0])
	run(t, dir, etcd, "--data-dir="+filepath.Join(dir, "etcd"), "--listen-client-urls="+store, "--advertise-client-urls="+store,
		fmt.Sprintf("--listen-peer-urls=http://127.0.0.1:%d", ports[1]), "--unsafe-no-fsync")
	return store
}

// Serve is Start with an existing etcd, which flags configure.
func Serve(t testing.TB, flags ...string) *rest.Config {
	t.Helper()
	return serve(t, run, flags)
}

// ServeRestarting is Serve with an API server that is restarted whenever it exits, as by a kubelet.
func ServeRestarting(t testing.TB, flags ...string) *rest.Config {
	t.Helper()
	return serve(t, runRestarting, flags)
}

// serve starts an API server with run or keep.
func serve(t testing.TB, start starter, flags []string) *rest.Config {
	t.Helper()
	dir := t.TempDir()
	issue := writeMaterial(t, dir)
	return serveConfig(t, start, issue(administrator()), append(flags, materialFlags(dir)...))
}

// administrator is a certificate request with all permissions.
func administrator() pki.Request {
	return pki.Request{CommonName: "kubecfg", Organization: []string{"system:masters"}}
}

// ServeRestricted runs an API server that lets kubelets change only their own nodes
// (Kubernetes, "NodeRestriction"), and returns the client configurations of an administrator
// and of a node's kubelet.
func ServeRestricted(t testing.TB, node string) (admin, kubelet *rest.Config) {
	t.Helper()
	dir := t.TempDir()
	issue := writeMaterial(t, dir)
	admin = serveConfig(t, run, issue(administrator()), append(materialFlags(dir), "--etcd-servers="+Etcd(t), "--enable-admission-plugins=NodeRestriction"))
	kubelet = issue(pki.Request{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}})
	kubelet.Host = admin.Host
	return admin, kubelet
}

// materialFlags returns the flags for the files that writeMaterial has written.
func materialFlags(dir string) []string {
	file := func(name string) string { return filepath.Join(dir, name) }
	return []string{
		"--tls-cert-file=" + file("server.crt"), "--tls-private-key-file=" + file("server.key"), "--client-ca-file=" + file("ca.crt"),
		"--service-account-key-file=" + file("server.key"), "--service-account-signing-key-file=" + file("server.key"),
	}
}

// ServeConfig runs an API server with an etcd and the key material set by flags. config is the client
// configuration of an administrator that it trusts; the result also has the server's address.
func ServeConfig(t testing.TB, config *rest.Config, flags ...string) *rest.Config {
	t.Helper()
	return serveConfig(t, run, config, flags)
}

// starter is run or keep.
type starter func(t testing.TB, dir, program string, args ...string) *output

func serveConfig(t testing.TB, start starter, config *rest.Config, flags []string) *rest.Config {
	t.Helper()
	apiserver, _ := Programs(t)
	port := servers.FreePorts(t, 1)[0]
	config = rest.CopyConfig(config)
	config.Host = fmt.Sprintf("https://127.0.0.1:%d", port)
	log := start(t, t.TempDir(), apiserver, append([]string{"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
		"--service-account-issuer=https://kubernetes.default.svc", "--authorization-mode=Node,RBAC", "--service-cluster-ip-range=10.96.0.0/16",
		"--endpoint-reconciler-type=none", "--allow-privileged", "--disable-admission-plugins=ServiceAccount"}, flags...)...) // the last of two flags counts
	waitReady(t, config, log)
	return config
}

// Kubeconfig writes a client configuration returned by Start to a kubeconfig file, and returns its path.
func Kubeconfig(t testing.TB, config *rest.Config) string {
	t.Helper()
	k := clientcmdapi.NewConfig()
	k.Clusters["test"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	k.AuthInfos["test"] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	k.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	k.CurrentContext = "test"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*k, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// writeMaterial writes an authority and a server's key pair, and returns a function that issues
// client certificates.
func writeMaterial(t testing.TB, dir string) (client func(pki.Request) *rest.Config) {
	t.Helper()
	issuer := pki.Issuer{Rand: rand.Reader, Now: time.Now, Generate: testkeys.Source()}
	all, _, err := pki.Ensure(nil, []string{pki.KubernetesCA}, issuer)
	if err != nil {
		t.Fatal(err)
	}
	ca := all[pki.KubernetesCA]
	write := func(name string, text []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pair := func(r pki.Request) (cert, key []byte) {
		p, err := issuer.Issue(r, ca)
		if err == nil {
			key, err = p.Key.PEM()
		}
		if err != nil {
			t.Fatal(err)
		}
		return pki.EncodeCertificate(p.Certificate), key
	}
	write("ca.crt", []byte(ca.Bundle()))
	cert, key := pair(pki.Request{Usage: pki.Server, CommonName: "kubernetes-master", Names: []string{"127.0.0.1", "kubernetes"}})
	write("server.crt", cert)
	write("server.key", key)
	return func(r pki.Request) *rest.Config {
		r.Usage = pki.Client
		cert, key := pair(r)
		return &rest.Config{QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: []byte(ca.Bundle()), CertData: cert, KeyData: key}}
	}
}

// output is the output of a process; it may be read while the process runs.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// tail returns the end of the output.
func (o *output) tail() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.text.String()
	return s[max(0, len(s)-3000):]
}

// run starts a process that the end of the test kills.
func run(t testing.TB, dir, program string, args ...string) *output {
	t.Helper()
	log := &output{}
	c := exec.Command(program, args...)
	c.Dir, c.Stdout, c.Stderr = dir, log, log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill() // it may have exited
		_ = c.Wait()         // it was killed
		if t.Failed() && os.Getenv("KOPS_KUBETEST_LOG") != "" {
			t.Logf("%s:\n%s", filepath.Base(program), log.tail())
		}
	})
	return log
}

// runRestarting runs a program until the end of the test, and restarts it whenever it exits.
func runRestarting(t testing.TB, dir, program string, args ...string) *output {
	t.Helper()
	log := &output{}
	ctx, stop := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() {
		for ctx.Err() == nil {
			c := exec.CommandContext(ctx, program, args...)
			c.Dir, c.Stdout, c.Stderr = dir, log, log
			_ = c.Run() // it is stopped, or restarted
			select {
			case <-ctx.Done():
			case <-time.After(restartPause):
			}
		}
	})
	t.Cleanup(func() {
		stop()
		ended.Wait()
	})
	return log
}

// waitReady waits until the API server reports that it is ready.
func waitReady(t testing.TB, config *rest.Config, log *output) {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for last := ""; ; {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(config.Host, "/")+"/readyz", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
			last = resp.Status
		} else if ctx.Err() == nil {
			last = err.Error()
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the API server was not ready within %s (%s):\n%s", startTimeout, last, log.tail())
		case <-time.After(100 * time.Millisecond):
		}
	}
}
