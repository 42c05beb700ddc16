package run

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"kops.local/kops/internal/contract/controllerconfig"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/node/controller"
	"kops.local/kops/internal/platform/incluster"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/test/servers"
)

// noNodes is a cluster without nodes.
type noNodes struct{}

func (noNodes) State(context.Context, string) (controller.NodeState, error) {
	return controller.NodeAbsent, nil
}

// TestMachinesAreCalledBack has a machine join on a platform that attests nothing, before and after the
// cluster's authority is replaced.
func TestMachinesAreCalledBack(t *testing.T) {
	dir, write := files(t)
	bundle, _ := material(t, write)
	write("store/igconfig/node/nodes/nodeupconfig.yaml", "KubeletConfig: {}\n")
	conf := &controllerconfig.Config{ClusterName: "c.k8s.local", Cloud: "attests-nothing"}
	conf.Server.CABasePath, conf.Server.SigningCAs = dir, []string{pki.KubernetesCA}
	port := servers.FreePorts(t, 1)[0]
	cloud := incluster.Platform{Name: "attests-nothing", Connect: func(_ context.Context, w incluster.World) (incluster.Control, error) {
		return incluster.Control{Verifier: &bootstrap.Callback{Scheme: "x-test-id", Cluster: w.Config.ClusterName, PerSecond: 10, AtOnce: 100, Now: w.Now, Port: port, Certificate: w.CallerCertificate,
			Find: func(context.Context, string) (bootstrap.Called, error) {
				return bootstrap.Called{NodeName: "node-1", InstanceGroup: "nodes", Cluster: "c.k8s.local", IsRunning: true, Addresses: []string{"127.0.0.2"}}, nil
			}}}, nil
	}}
	var handler *current
	folder := store.NewFolder(filepath.Join(dir, "store"))
	stored := controller.Stored{Base: folder, Secrets: folder}
	who, err := connect(t.Context(), Options{Platforms: []incluster.Platform{cloud}}, conf, stored, callers(conf.ClusterName, func() *controller.Server { return handler.server.Load() }))
	if err != nil {
		t.Fatal(err)
	}
	handler, err = newCurrent(conf, &controller.Server{Verifier: who.Verifier, Nodes: noNodes{}, Configs: stored, Issuer: pki.Issuer{Rand: rand.Reader, Now: time.Now}, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}, nil)
	if err != nil {
		t.Fatal(err)
	}
	join := func(bundle string) {
		t.Helper()
		server := httptest.NewUnstartedServer(handler)
		if server.TLS, err = serving(filepath.Join(dir, "kops-controller.crt"), filepath.Join(dir, "kops-controller.key")); err != nil {
			t.Fatal(err)
		}
		server.StartTLS()
		defer server.Close()
		transport, err := bootstrap.NewTLS(bundle, "kops-controller.internal.c.k8s.local", nil)
		if err != nil {
			t.Fatal(err)
		}
		client := &bootstrap.Client{Servers: []string{server.URL}, Transport: transport, Clock: bootstrap.SystemClock(),
			Prover:   bootstrap.Claim{Scheme: "x-test-id", ID: func(context.Context) (string, error) { return "1", nil }},
			Listener: &bootstrap.Listener{Cluster: conf.ClusterName, Authorities: bundle, Now: time.Now, Rand: rand.Reader, Address: "127.0.0.2:" + strconv.Itoa(port)}}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if got, err := client.NodeConfig(ctx); err != nil || got.NodeupConfig == "" {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	join(bundle)
	bundle, _ = material(t, write)
	if err := handler.load(); err != nil {
		t.Fatal(err)
	}
	join(bundle)
}

func TestTheCertificateForCallsIsRenewedInTime(t *testing.T) {
	dir, write := files(t)
	material(t, write)
	signers, err := controller.LoadSigners(os.DirFS(dir), []string{pki.KubernetesCA})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	server := &controller.Server{Signers: signers, Issuer: pki.Issuer{Rand: rand.Reader, Now: func() time.Time { return now }}}
	certificate := callers("c.k8s.local", func() *controller.Server { return server })
	last := ""
	for _, x := range []struct {
		after time.Duration
		isNew bool
	}{{0, true}, {callerAge, false}, {time.Second, true}, {callerAge, false}} {
		now = now.Add(x.after)
		got, err := certificate()
		if err != nil {
			t.Fatal(err)
		}
		if serial := got.Leaf.SerialNumber.String(); (serial != last) != x.isNew || got.Leaf.NotAfter.Before(now.Add(15*time.Minute)) {
			t.Errorf("after %s, it is new: %t, and valid until %s", x.after, serial != last, got.Leaf.NotAfter)
		}
		last = got.Leaf.SerialNumber.String()
	}
	server.Signers = nil
	if _, err := certificate(); err == nil {
		t.Error("there is a certificate without an authority")
	}
}
