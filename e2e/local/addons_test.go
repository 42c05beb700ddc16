package local

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/internal/platform/local/localtest"
)

// addonTurns is the number of runs in which each group of add-ons takes one turn, between those of pod networks. What
// an add-on needs is built in its turn.
const addonTurns = networkTurns

// TestMetrics: metrics of pods are served with a certificate of cert-manager's, and scale a Deployment under load;
// issuers issue certificates; every node is drained with the add-ons on it.
func TestMetrics(t *testing.T) {
	localtest.ClusterTurn(t, 1, addonTurns)
	w := newWorld(t)
	names, options := w.documentedAddons()
	w.addAddons(names...)
	w.create(append([]string{"--node-count", "2"}, options...)...)
	for _, program := range []string{"metrics-server", "controller", "webhook", "cainjector"} {
		w.measureProgram(program)
	}
	w.checkCertificates()
	w.checkMetrics()
	w.checkScaling()
	w.checkDrains()
	w.checkUnchanged()
	w.delete()
}

// TestVolumes: add-ons are installed in a running cluster; a volume survives its pod, and a snapshot that exists already is bound to its object.
func TestVolumes(t *testing.T) {
	localtest.ClusterTurn(t, 4, addonTurns)
	w := newWorld(t)
	w.addAddons("local-path", "snapshot-controller", "cert-manager")
	w.create("--node-count", "2")
	start := time.Now()
	w.must("edit", "cluster", cluster, "--set", "spec.snapshotController.enabled=true", "--set", "spec.certManager.enabled=true")
	w.must("update", "cluster", cluster, "--yes")
	w.measureProgram("snapshot-controller")
	w.figures.seconds("add-ons of a running cluster", time.Since(start))
	w.checkSnapshots()
	w.kubectl("apply", "-f", "testdata/local-path.yaml")
	w.checkVolumes()
	w.measureProgram("local-path-provisioner")
	w.checkDrains()
	w.delete()
}

// documentedAddons returns the add-ons that the user's page about this host builds, and the options of its
// `kops create cluster`.
func (w *world) documentedAddons() (names, options []string) {
	w.Helper()
	page, err := os.ReadFile("../../docs/local.md")
	w.ok(err)
	found := regexp.MustCompile(`\nmake bundle ADDONS=(\S+)\nkops create cluster --cloud local (.+) demo.k8s.local --yes\n`).FindSubmatch(page)
	if found == nil {
		w.Fatal("the page about this host has no commands for add-ons")
	}
	return strings.Split(string(found[1]), ","), strings.Fields(string(found[2]))
}

// addAddons builds add-ons, unless they were built before, and adds their images to the bundle.
func (w *world) addAddons(names ...string) {
	w.Helper()
	start, list := time.Now(), strings.Join(names, ",")
	only := strings.NewReplacer("local-path", "local-path-provisioner", "external-dns", "external-dns,bind9").Replace(list)
	c := exec.CommandContext(w.Context(), "go", "run", ".", "-addons", list, "-only", only, newerKubernetes)
	c.Dir = "../../tools/kubernetes"
	if out, err := c.CombinedOutput(); err != nil {
		w.Fatalf("build %s: %v\n%s", list, err, out)
	}
	w.figures.seconds("programs of "+list+", built", time.Since(start))
	w.must("bundle", "create", "--own", filepath.Dir(w.tools.kops), "--dir", w.tools.bundle, "--addons", list, "--offline")
}

// measureProgram measures the memory of a program that runs on some machines.
func (w *world) measureProgram(program string) {
	w.Helper()
	w.wait(program+" runs", clusterTime, func() error {
		for _, pid := range w.processesOf(program[:min(len(program), 15)]) { // the kernel cuts names
			if pid != 0 {
				w.figures["resident memory of "+program+" MB"] = max(w.figures["resident memory of "+program+" MB"], w.residentOf(pid))
			}
		}
		if w.figures["resident memory of "+program+" MB"] == 0 {
			return fmt.Errorf("no machine has a process of it")
		}
		return nil
	})
}

// residentOf returns the resident memory of a process, in MB.
func (w *world) residentOf(pid int) float64 {
	w.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0 // it has gone
	}
	var total, resident int
	_, err = fmt.Sscan(string(text), &total, &resident)
	w.ok(err)
	return float64(resident*os.Getpagesize()) / 1e6
}

// checkMetrics: nodes and pods have metrics, which the API server gets over a connection that it verifies.
func (w *world) checkMetrics() {
	w.Helper()
	if ca := w.kubectl("get", "apiservice", "v1beta1.metrics.k8s.io", "-o", "jsonpath={.spec.caBundle}{.spec.insecureSkipTLSVerify}"); ca == "" || strings.HasSuffix(ca, "true") {
		w.Errorf("the API server does not verify the connection to the metrics server: %q", ca)
	}
	w.wait("metrics of all nodes and pods", clusterTime, func() error {
		for _, of := range []string{"nodes", "pods"} {
			r := w.exec(w.Context(), time.Minute, w.tools.ctl, "top", of, "--all-namespaces", "--no-headers")
			if of == "nodes" {
				r = w.exec(w.Context(), time.Minute, w.tools.ctl, "top", of, "--no-headers")
			}
			if n := strings.Count(r.out, "\n"); r.code != 0 || n < len(w.machines("")) || strings.Contains(r.out, "<unknown>") {
				return fmt.Errorf("%s: %d lines: %s%s", of, n, r.out, r.err)
			}
		}
		return nil
	})
}

// checkScaling: a Deployment grows under load, and shrinks without.
func (w *world) checkScaling() {
	w.Helper()
	w.kubectl("apply", "-f", "testdata/scaled.yaml")
	w.kubectl("rollout", "status", "deployment/scaled", "--timeout=60s")
	ctx, stop := context.WithCancel(w.Context())
	var load sync.WaitGroup
	for range 4 {
		load.Go(func() {
			for ctx.Err() == nil {
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.workers()[0].Address+":30081/echo?msg=x", nil)
				if err != nil {
					w.Error(err)
					return
				}
				if answer, err := http.DefaultClient.Do(r); err == nil {
					_ = answer.Body.Close() // only load is wanted
				}
			}
		})
	}
	defer load.Wait()
	defer stop()
	w.figures.seconds("load to three pods", w.wait("three pods under load", clusterTime, func() error { return w.scaledTo(3) }))
	stop()
	load.Wait()
	w.figures.seconds("end of the load to one pod", w.wait("one pod without", clusterTime, func() error { return w.scaledTo(1) }))
	w.kubectl("delete", "-f", "testdata/scaled.yaml")
}

func (w *world) scaledTo(pods int32) error {
	d, err := w.client().AppsV1().Deployments("default").Get(w.Context(), "scaled", metav1.GetOptions{})
	if err == nil && d.Status.ReadyReplicas != pods {
		err = fmt.Errorf("%d pods are ready, of %d", d.Status.ReadyReplicas, *d.Spec.Replicas)
	}
	return err
}

// checkCertificates: an issuer signs its own certificate, and another one signs with it.
func (w *world) checkCertificates() {
	w.Helper()
	begun := time.Now()
	w.wait("the webhook accepts objects", clusterTime, func() error {
		if r := w.exec(w.Context(), time.Minute, w.tools.ctl, "apply", "-f", "testdata/certificates.yaml"); r.code != 0 {
			return fmt.Errorf("%s%s", r.out, r.err)
		}
		return nil
	})
	w.kubectl("wait", "certificate/authority", "certificate/web", "--for=condition=Ready", "--timeout=55s")
	w.figures.seconds("certificates issued", time.Since(begun))
	authority, err := w.client().CoreV1().Secrets("default").Get(w.Context(), "authority", metav1.GetOptions{})
	w.ok(err)
	web, err := w.client().CoreV1().Secrets("default").Get(w.Context(), "web", metav1.GetOptions{})
	w.ok(err)
	roots := x509.NewCertPool()
	block, _ := pem.Decode(web.Data["tls.crt"])
	if block == nil || !roots.AppendCertsFromPEM(authority.Data["tls.crt"]) {
		w.Fatalf("no certificates in the secrets: %q, %q", web.Data["tls.crt"], authority.Data["tls.crt"])
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	w.ok(err)
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "web.example.com"}); err != nil {
		w.Errorf("the issued certificate: %v", err)
	}
	if r := w.exec(w.Context(), time.Minute, w.tools.ctl, "patch", "certificate", "web", "--type=merge", "-p", `{"spec":{"duration":"1m"}}`); r.code == 0 || !strings.Contains(r.err, "webhook") {
		w.Errorf("the webhook accepts a certificate that lasts a minute: %s%s", r.out, r.err)
	}
}

// checkSnapshots: a snapshot is bound to its content.
func (w *world) checkSnapshots() {
	w.Helper()
	w.kubectl("apply", "-f", "testdata/snapshot.yaml")
	w.kubectl("wait", "volumesnapshot/earlier", "--for=jsonpath={.status.boundVolumeSnapshotContentName}=earlier", "--timeout=55s")
	if id := w.kubectl("get", "volumesnapshotcontent", "earlier", "-o", "jsonpath={.spec.volumeSnapshotRef.uid}"); id == "" {
		w.Error("the content of the snapshot does not refer to it")
	}
}

// checkVolumes: what a pod writes on a volume is there for the next pod, on a node that was restarted, and goes with the claim.
func (w *world) checkVolumes() {
	w.Helper()
	w.kubectl("apply", "-f", "testdata/volume.yaml")
	w.expectStarts(1)
	w.kubectl("delete", "pod", "--selector", "app=kept")
	w.expectStarts(2)
	volume := w.kubectl("get", "pvc", "kept", "-o", "jsonpath={.spec.volumeName}")
	w.kubectl("delete", "-f", "testdata/volume.yaml")
	w.kubectl("wait", "--for=delete", "persistentvolume/"+volume, "--timeout=55s")
}

func (w *world) expectStarts(n int) {
	w.Helper()
	w.wait(fmt.Sprintf("a pod has started for time %d", n), clusterTime, func() error {
		r := w.exec(w.Context(), time.Minute, w.tools.ctl, "exec", "deployment/kept", "--", "cat", "/kept/starts")
		if got := strings.Count(r.out, "\n"); r.code != 0 || got != n {
			return fmt.Errorf("%d starts: %s%s", got, r.out, r.err)
		}
		return nil
	})
}

// checkDrains: each node can be drained, one after the other, and what ran there runs again.
func (w *world) checkDrains() {
	w.Helper()
	for _, m := range w.machines("") {
		start := time.Now()
		r := w.exec(w.Context(), clusterTime, w.tools.ctl, "drain", m.Name, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=3m")
		if r.code != 0 {
			w.Errorf("drain %s: exit %d\n%s%s", m.Name, r.code, r.out, r.err)
		}
		w.figures.seconds("drain of the slowest node", max(time.Since(start), time.Duration(w.figures["drain of the slowest node s"]*float64(time.Second))))
		w.kubectl("uncordon", m.Name)
	}
	w.waitUntilValid()
}
