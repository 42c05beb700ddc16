package joinsuite

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/test/clitest"
	"kops.local/kops/internal/test/cloudsuite"
	"kops.local/kops/internal/test/programstest"
	"kops.local/kops/internal/test/sandbox"
	"kops.local/kops/world"
)

// stage is a cluster at a stand-in, and its machines, which boot one after the other.
type stage struct {
	*testing.T
	cloud *Cloud
	w     *cloudsuite.World
	admin *rest.Config // of an administrator, at the API server
	// booting is the machine to which the metadata service answers at its usual address.
	booting atomic.Pointer[http.Handler]
}

// host is a machine that has booted.
type host struct {
	*sandbox.Machine
	of  platform.Machine
	env map[string]string // of nodeup
}

// Run tests a cloud, which describe describes in the sandbox.
func Run(t *testing.T, describe func(*testing.T) *Cloud) {
	if !sandbox.Enter(t) {
		return
	}
	sandbox.ResolveAll(t)
	trusted := sandbox.TrustedAuthority(t)
	s := &stage{T: t, cloud: describe(t)}
	s.w = cloudsuite.New(t, s.cloud.Cloud)
	s.serve(trusted)
	s.createCluster()
	control := s.boot(s.w.Machine(s.w.ControlPlane()))
	s.startAPIServer(control)
	s.startController(control)
	s.findDisk(control)
	s.join(s.boot(s.w.Machine(s.w.Nodes())))
}

// serve serves what machines reach by its usual names and addresses.
func (s *stage) serve(trusted *sandbox.Authority) {
	api, mirror := s.cloud.API(s.w), sandbox.Archive(s)
	sandbox.Serve(s, "127.0.0.1:443", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.cloud.Owns(r.Host) {
			api.ServeHTTP(w, r)
			return
		}
		_, _ = w.Write(mirror) // the client notices what is missing
	}), func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		return trusted.Certificate(hello.ServerName)
	})
	for _, ip := range []string{"127.0.0.1", sandbox.MetadataIP} { // by its name, and by its address
		sandbox.Serve(s, net.JoinHostPort(ip, "80"), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			(*s.booting.Load()).ServeHTTP(w, r)
		}), nil)
	}
}

// createCluster creates the cluster, whose machines then exist at the stand-in. All files that they fetch are one
// archive, and their nodeup is a script.
func (s *stage) createCluster() {
	cache := filepath.Join(s.w.Home, ".cache", "kops")
	programstest.ArchiveOf(s, filepath.Join(cache, "programs"), clitest.Version, func(name string) string {
		if name == "nodeup" {
			return sandbox.Nodeup
		}
		return "#!/bin/sh\n"
	})
	sum := sha256.Sum256(sandbox.Archive(s))
	s.w.Env[world.FileHashes] = hex.EncodeToString(sum[:]) + "@*"
	s.w.Small(s.cloud.Options...)
	s.w.Must("update", "cluster", cloudsuite.Name, "--yes")
}

// server matches an IPv4 address of kops-controller in user data.
var server = regexp.MustCompile(`- https://([0-9]+\.[0-9.]+):3988/`)

// boot boots a machine: it runs its user data, and nodeup as these have fetched it would be run. A machine that
// proves its identity must not get far before it can.
func (s *stage) boot(m platform.Machine) host {
	s.Helper()
	metadata := s.cloud.Metadata(s.w, m)
	s.booting.Store(&metadata)
	h := host{Machine: sandbox.NewMachine(s.T), of: m}
	script := s.cloud.Script(s.w, m)
	for _, at := range server.FindAllStringSubmatch(script, -1) {
		sandbox.AddAddress(s, at[1])
	}
	h.RunBootScript(script, "0")
	h.finish("its user data")
	h.env = sandbox.Environment(s)
	proves := s.cloud.Identify != nil && m.Group == s.w.Nodes()
	h.RunNodeup("/opt/kops/conf/kube_env.yaml", h.env, time.Now)
	if proves {
		if h.WaitUntilRest() {
			s.Fatalf("the machine %s joins without proof of its identity:\n%s", m.Name, h.Console())
		}
		s.cloud.Identify(s.w, m, h.Root)
		h.Resume()
	}
	h.finish("nodeup")
	return h
}

// tries is how often a machine tries again before it counts as broken: kops-controller is still starting.
const tries = 100

// finish waits until a program of the machine ends.
func (h host) finish(program string) {
	h.Helper()
	for range tries {
		if h.WaitUntilRest() {
			return
		}
		time.Sleep(50 * time.Millisecond)
		h.Resume()
	}
	h.Fatalf("%s does not set up the machine %s:\n%s", program, h.of.Name, h.Console())
}
