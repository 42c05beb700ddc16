package local

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/platform/local/localtest"
	"kops.local/kops/internal/test/kubetest"
)

// TestKarpenter: with the definitions of kops' add-on, Karpenter creates a node for a pod that has none, and deletes the
// node with the claim to it. Its own stand-in for a cloud makes Node objects without machines.
func TestKarpenter(t *testing.T) {
	localtest.ClusterTurn(t, 10, addonTurns)
	k := karpenter{T: t, config: kubetest.Kubeconfig(t, kubetest.Start(t))}
	k.build()
	k.kubectl("apply", "--server-side", "-f", "../../internal/spec/catalogue/addons/karpenter.sh/crds.yaml")
	k.kubectl("apply", "--server-side", "-f", k.folder("mod", "download", "-json", "sigs.k8s.io/karpenter@v1.13.0")+"/kwok/apis/crds")
	k.kubectl("wait", "--for=condition=Established", "customresourcedefinition", "--all", "--timeout=30s")
	k.start()
	k.kubectl("apply", "-f", "testdata/karpenter.yaml")
	// There is no scheduler, which would say so.
	k.kubectl("patch", "pod", "pending", "--subresource=status", "-p",
		`{"status":{"conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"no nodes"}]}}`)
	start := time.Now()
	k.wait("a node that fits the pod", func() error {
		out, err := k.try("get", "nodes", "--selector", "karpenter.sh/nodepool=pool", "-o", "jsonpath={.items[*].status.allocatable.cpu}", "--ignore-not-found")
		if cpu, _ := strconv.ParseFloat(strings.TrimSuffix(out, "m"), 64); err != nil || cpu < 3 {
			return fmt.Errorf("CPUs of nodes: %q, %w", out, err)
		}
		return nil
	})
	t.Logf("%10.1f  s from a pending pod to its node", time.Since(start).Seconds())
	k.kubectl("wait", "nodeclaims", "--all", "--for=condition=Registered", "--timeout=60s")
	k.kubectl("delete", "pod", "pending", "--force")
	k.kubectl("delete", "nodeclaims", "--all", "--wait=false")
	k.wait("no node", func() error {
		out, err := k.try("get", "nodes,nodeclaims", "-o", "name")
		if err == nil && out != "" {
			err = fmt.Errorf("%s", out)
		}
		return err
	})
}

type karpenter struct {
	*testing.T
	config string
}

func (k karpenter) build() {
	k.Helper()
	c := exec.CommandContext(k.Context(), "go", "run", ".", "-addons", "karpenter-kwok", "-only", "karpenter-kwok", newerKubernetes)
	c.Dir = "../../tools/kubernetes"
	if out, err := c.CombinedOutput(); err != nil {
		k.Fatalf("build Karpenter: %v\n%s", err, out)
	}
}

// folder returns the folder of a module.
func (k karpenter) folder(args ...string) string {
	k.Helper()
	out, err := exec.CommandContext(k.Context(), "go", args...).Output()
	var m struct{ Dir string }
	if err == nil {
		err = json.Unmarshal(out, &m)
	}
	if err != nil {
		k.Fatal(err)
	}
	return m.Dir
}

// start runs Karpenter until the test ends.
func (k karpenter) start() {
	k.Helper()
	log, err := os.Create(filepath.Join(k.TempDir(), "log"))
	if err != nil {
		k.Fatal(err)
	}
	c := exec.Command(k.built("karpenter-kwok"))
	c.Env = append(os.Environ(), "KUBECONFIG="+k.config, "DISABLE_LEADER_ELECTION=true", "SYSTEM_NAMESPACE=kube-system",
		"METRICS_PORT="+k.freePort(), "HEALTH_PROBE_PORT="+k.freePort())
	c.Stdout, c.Stderr = log, log
	if err := c.Start(); err != nil {
		k.Fatal(err)
	}
	k.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait() // it was killed
		if text, err := os.ReadFile(log.Name()); k.Failed() && err == nil {
			k.Logf("%s", text[max(0, len(text)-10000):])
		}
	})
}

func (k karpenter) freePort() string {
	k.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		k.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // another program listens there
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// built returns a program that tools/kubernetes built.
func (k karpenter) built(name string) string {
	k.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		k.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(cache, "kops", "build", "*-v*-"+runtime.GOARCH, "bin", name))
	if err != nil || len(found) == 0 {
		k.Fatalf("%s was not built: %v", name, err)
	}
	return found[len(found)-1]
}

func (k karpenter) try(args ...string) (string, error) {
	out, err := exec.CommandContext(k.Context(), k.built("kubectl"), append([]string{"--kubeconfig", k.config}, args...)...).CombinedOutput()
	return string(out), err
}

func (k karpenter) kubectl(args ...string) {
	k.Helper()
	if out, err := k.try(args...); err != nil {
		k.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func (k karpenter) wait(what string, f func() error) {
	k.Helper()
	for start := time.Now(); ; time.Sleep(pause) {
		err := f()
		if err == nil {
			return
		}
		if time.Since(start) > 2*time.Minute {
			k.Fatalf("%s: %v", what, err)
		}
	}
}
