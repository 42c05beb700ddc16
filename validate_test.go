package kops_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kops.local/kops"
	"kops.local/kops/api"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/spec/newcluster"
	"kops.local/kops/provider"
)

// readyAPI is an API server with the nodes of the bench's cluster and its control
// plane; ready returns, for the number of the check, whether it reports that it is ready.
func readyAPI(t *testing.T, ready func(look int) bool) string {
	t.Helper()
	node := func(name, role string) string {
		return fmt.Sprintf(`{"metadata":{"name":%q,"labels":{"node-role.kubernetes.io/%s":""}},"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, name, role)
	}
	nodes := []string{node("control-plane-here-0", "control-plane"), node("nodes-here-0", "node"), node("nodes-here-1", "node")}
	var pods []string
	for _, app := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd-manager-main", "etcd-manager-events"} {
		pods = append(pods, fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"kube-system","labels":{"k8s-app":%q}},"spec":{"nodeName":"control-plane-here-0"},"status":{"phase":"Running"}}`, app, app))
	}
	looks := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := ""
		switch r.URL.Path {
		case "/readyz":
			if looks++; !ready(looks) {
				w.WriteHeader(http.StatusInternalServerError)
				answer = "[-]etcd failed"
			}
		case "/api/v1/nodes":
			answer = `{"kind":"NodeList","apiVersion":"v1","items":[` + strings.Join(nodes, ",") + `]}`
		case "/api/v1/pods":
			answer = `{"kind":"PodList","apiVersion":"v1","items":[` + strings.Join(pods, ",") + `]}`
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, answer) //nolint:errcheck // a test
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestValidationWaitsUntilTheClusterIsReadyOftenEnough(t *testing.T) {
	b := newAppliedBench(t)
	slept := 0
	c := b.client(func(c *kops.Config) {
		c.World.Sleep = func(ctx context.Context, d time.Duration) error {
			if d != 7*time.Second {
				t.Errorf("slept %v", d)
			}
			slept++
			return ctx.Err()
		}
	})
	var seen []bool
	o := kops.ValidateOptions{Wait: time.Hour, Interval: 7 * time.Second, Count: 2, On: onValidation(func(v *kops.Validation) { seen = append(seen, v.Ready()) })}
	o.Server = readyAPI(t, func(look int) bool { return look == 2 || look > 3 })
	v, err := c.ValidateCluster(t.Context(), name, o)
	if err != nil || !v.Ready() || len(v.Nodes) != 3 || fmt.Sprint(seen) != "[false true false true true]" || slept != 4 {
		t.Errorf("%+v, %v; saw %v, slept %d times", v, err, seen, slept)
	}
	// Without waiting the first result counts.
	seen, o.Wait = nil, 0
	o.Server = readyAPI(t, func(look int) bool { return look > 1 })
	if v, err := c.ValidateCluster(t.Context(), name, o); err != nil || len(v.Failures) != 1 || v.Failures[0].Kind != "APIServer" || len(seen) != 1 {
		t.Errorf("%+v, %v, saw %v", v, err, seen)
	}
}

// onValidation returns an On that receives the results.
func onValidation(f func(*kops.Validation)) kops.On {
	return func(e kops.Event) error {
		if e.Kind == kops.EventValidation {
			f(e.Validation)
		}
		return nil
	}
}

func TestValidationEndsWithTheTime(t *testing.T) {
	b := newAppliedBench(t)
	synctest.Test(t, func(t *testing.T) {
		c := b.client(func(c *kops.Config) { c.World.Sleep = nil })
		o := kops.ValidateOptions{Wait: time.Minute, Interval: 25 * time.Second}
		o.Server = "https://127.0.0.1:1"
		looks, began := 0, time.Now()
		o.On = onValidation(func(*kops.Validation) { looks++ })
		v, err := c.ValidateCluster(t.Context(), name, o)
		if v == nil || v.Ready() || !fault.Is(err, fault.NotYet) || looks != 3 || time.Since(began) != time.Minute {
			t.Errorf("%+v, %v after %d looks in %v", v, err, looks, time.Since(began))
		}
		looks, o.Wait = 0, time.Nanosecond
		if v, err := c.ValidateCluster(t.Context(), name, o); v == nil || !fault.Is(err, fault.NotYet) || looks != 1 {
			t.Errorf("in no time: %+v, %v after %d looks", v, err, looks)
		}
		ctx, cancel := context.WithCancel(t.Context())
		o.Wait, o.On = time.Minute, onValidation(func(*kops.Validation) { cancel() })
		if _, err := c.ValidateCluster(ctx, name, o); !errors.Is(err, context.Canceled) {
			t.Errorf("when it is cancelled: %v", err)
		}
	})
}

// An error of the first check is reported, even if the time had expired before it occurred.
func TestValidationReportsWhyTheFirstCheckFailed(t *testing.T) {
	b := newAppliedBench(t)
	p := inside[platform.Provider](b.world.Provider())
	p.Fleet.Machines = func(context.Context, *platform.Session, *api.Cluster, []*api.InstanceGroup) ([]platform.MachineGroup, error) {
		return nil, fault.New(fault.Denied, "you may not list machines")
	}
	c := b.client(func(c *kops.Config) { c.Clouds = []kops.Provider{p} })
	o := kops.ValidateOptions{Wait: time.Nanosecond}
	o.Server = "https://127.0.0.1:1"
	_, err := c.ValidateCluster(t.Context(), name, o)
	expectTexts(t, err, "you may not list machines")
}

func TestValidationWithoutALoadBalancer(t *testing.T) {
	b := newAppliedBench(t)
	b.world.Lose("fake_balancer/api." + name)
	v, err := b.ValidateCluster(t.Context(), name, kops.ValidateOptions{})
	if err != nil || len(v.Failures) != 1 || v.Failures[0].String() != "APIServer "+name+": it has no address yet: its load balancer does not exist; create it: kops update cluster "+name+" --yes" {
		t.Errorf("%+v, %v", v, err)
	}
}

// A store may contain an authority without its key; then the user's kubeconfig is used.
func TestValidationWithoutTheKeyOfTheAuthority(t *testing.T) {
	b := newBench(t)
	state := t.TempDir()
	b.cfg.Store.URL = "file://" + state
	b.Client = b.client(func(*kops.Config) {})
	b.describe(func(*newcluster.Options) {})
	b.apply(kops.UpdateOptions{})
	o := kops.ValidateOptions{}
	o.Server = readyAPI(t, func(int) bool { return true })
	o.Kubeconfig = filepath.Join(t.TempDir(), "config")
	keyset := filepath.Join(state, name, "pki/private/kubernetes-ca/keyset.yaml")
	text, err := os.ReadFile(keyset)
	if err == nil {
		var kept []string
		for l := range strings.Lines(string(text)) {
			if !strings.Contains(l, "privateMaterial") {
				kept = append(kept, l)
			}
		}
		err = os.WriteFile(keyset, []byte(strings.Join(kept, "")), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.ValidateCluster(t.Context(), name, o)
	expectTexts(t, err, "kubernetes-ca", "there is no kubeconfig file")
	config := fmt.Sprintf("clusters: [{name: a, cluster: {server: %s}}]\nusers: [{name: a, user: {token: t}}]\ncontexts: [{name: %s, context: {cluster: a, user: a}}]\n", o.Server, name)
	if err := os.WriteFile(o.Kubeconfig, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if v, err := b.ValidateCluster(t.Context(), name, o); err != nil || !v.Ready() {
		t.Errorf("with a kubeconfig: %+v, %v", v, err)
	}
}

func TestADiagnosisShowsWhatMachinesReport(t *testing.T) {
	b := newAppliedBench(t)
	b.world.SetBootRecord("nodes-here-0", provider.BootRecord{Report: []byte(`{"phases":[{"name":"configure","state":"failed","error":"no answer","remedy":"ask again"}]}`)})
	o := kops.DiagnoseOptions{}
	o.Server = "https://127.0.0.1:1"
	d, err := b.Diagnose(t.Context(), name, o)
	if err != nil || len(d.Machines) != 3 || len(d.Failures) != 2 {
		t.Fatalf("%+v, %v", d, err)
	}
	if m := d.Machines[1]; m.Name != "nodes-here-0" || m.Status != "unknown" || m.Boot == nil || m.Remedy != "ask again" {
		t.Errorf("%+v", m)
	}
}

// Where a cloud shows no console, the machine itself has its report.
func TestADiagnosisSaysWhereReportsAre(t *testing.T) {
	b := newAppliedBench(t)
	c := b.client(func(c *kops.Config) { c.Clouds = b.clouds(func(p *platform.Provider) { p.Fleet.BootRecord = nil }) })
	o := kops.DiagnoseOptions{}
	o.Server = "https://127.0.0.1:1"
	d, err := c.Diagnose(t.Context(), name, o)
	if err != nil || len(d.Machines) != 3 {
		t.Fatalf("%+v, %v", d, err)
	}
	for _, m := range d.Machines {
		if m.Message != "the fake cloud does not show what the machine reports about its boot" || !strings.Contains(m.Remedy, "/var/log/kops-boot.json") {
			t.Errorf("%+v", m)
		}
	}
}
