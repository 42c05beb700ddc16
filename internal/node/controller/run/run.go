// Package run is kops-controller: it reads the configuration, and runs the parts of
// package controller for the platform that the configuration names.
//
// It must not know any platform, nor read flags or the environment itself.
package run

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"kops.local/kops/internal/contract/controllerconfig"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/node/controller"
	"kops.local/kops/internal/node/daemon"
	"kops.local/kops/internal/platform/incluster"
	"kops.local/kops/internal/platform/onmachine"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/open"
	"kops.local/kops/internal/store/s3/sdkchain"
)

// Options holds the command line's settings.
type Options struct {
	// Conf is the file with the configuration, Kubeconfig the kubeconfig of the
	// cluster; empty means the pod's service account.
	Conf, Kubeconfig string
	// Version is the version of this program.
	Version   string
	Platforms []incluster.Platform
	// Machines are the platforms as programs on machines know them: they provide
	// credentials for the store, if they have any.
	Machines []onmachine.Platform
	Env      func(string) string
	Log      *slog.Logger
}

// Controller serves machines, and maintains their nodes, until the context ends.
func Controller(ctx context.Context, o Options) error {
	text, err := os.ReadFile(o.Conf)
	if err != nil {
		return err
	}
	conf, err := controllerconfig.Parse(text)
	if err != nil {
		return err
	}
	config, err := daemon.Cluster(o.Kubeconfig, "kops-controller", o.Version)
	if err != nil {
		return err
	}
	base, stored, err := openStores(ctx, o, conf)
	if err != nil {
		return err
	}
	var handler *current // set before any machine is called
	who, err := connect(ctx, o, conf, stored, callers(conf.ClusterName, func() *controller.Server { return handler.server.Load() }))
	if err != nil {
		return err
	}
	core, err := corev1client.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("connect to the cluster: %w", err)
	}
	own, err := serving(conf.Server.CertificatePath, conf.Server.KeyPath)
	if err != nil {
		return err
	}
	handler, err = newCurrent(conf, &controller.Server{
		Verifier: who.Verifier, Nodes: controller.LiveNodes{Client: core.Nodes()}, Configs: stored,
		Gate: controller.NewGate(time.Now), InPlace: who.InPlace, Allowed: conf.Server.CertNames, Issuer: pki.Issuer{Rand: rand.Reader, Now: time.Now}, Log: o.Log,
		Programs: controller.NewPrograms(base, time.Now),
	}, bootstrap.SystemClock().Sleep)
	if err != nil {
		return err
	}
	server := &http.Server{Addr: conf.Server.Listen, TLSConfig: own,
		ErrorLog: slog.NewLogLogger(quietHandler{o.Log.Handler()}, slog.LevelWarn), Handler: handler}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	work := []func(context.Context) error{(&controller.Labeller{Nodes: core.Nodes(), Groups: who.Groups, Now: time.Now, Sleep: bootstrap.SystemClock().Sleep, Log: o.Log}).Run}
	if conf.CloudIPAM {
		if who.Prefixes == nil {
			return fmt.Errorf("the configuration of kops-controller: enableCloudIPAM: machines of the cloud %q have no ranges of addresses for pods", conf.Cloud)
		}
		work = append(work, (&controller.Ranger{Nodes: core.Nodes(), Prefixes: who.Prefixes, Log: o.Log}).Run)
	}
	if who.Machines != nil {
		work = append(work, (&controller.Lifecycle{Nodes: core.Nodes(), Pods: core, Machines: who.Machines, Period: who.Period, Clock: bootstrap.SystemClock(), Log: o.Log,
			Dead: &controller.Dead{ConfigMaps: core.ConfigMaps("kube-system"), Now: time.Now}}).Run)
	}
	if who.Fleet != nil {
		work = append(work, (&controller.Repair{Nodes: core.Nodes(), Fleet: who.Fleet, Groups: repairs(o.Conf), Clock: bootstrap.SystemClock(), Log: o.Log}).Run)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return daemon.Serve(ctx, server) })
	g.Go(func() error { return handler.watch(ctx) })
	g.Go(func() error { return lead(ctx, config, host, work) })
	return g.Wait()
}

// repairs returns a function that reads the repair policies next to a configuration; there are
// none if that file does not exist.
func repairs(conf string) func() (map[string]controllerconfig.Repair, error) {
	return func() (map[string]controllerconfig.Repair, error) {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(conf), controllerconfig.RepairFile))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return controllerconfig.ParseRepair(text)
	}
}

// quietHandler lowers the level of messages about connections that a load balancer opens, twice a
// second, only to check that the port is open.
type quietHandler struct{ slog.Handler }

func (q quietHandler) Handle(ctx context.Context, r slog.Record) error {
	closed := strings.HasSuffix(r.Message, ": EOF") || strings.HasSuffix(r.Message, ": connection reset by peer")
	if closed && strings.HasPrefix(r.Message, "http: TLS handshake error ") {
		if r.Level = slog.LevelDebug; !q.Enabled(ctx, r.Level) {
			return nil
		}
	}
	return q.Handler.Handle(ctx, r)
}

// lead runs all work on only one of the control planes.
func lead(ctx context.Context, config *rest.Config, host string, work []func(context.Context) error) error {
	leases, err := coordinationv1client.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("connect to the cluster: %w", err)
	}
	return controller.Lead(ctx, leases, host+"_"+rand.Text(), func(ctx context.Context) error {
		g, ctx := errgroup.WithContext(ctx)
		for _, w := range work {
			g.Go(func() error { return w(ctx) })
		}
		return g.Wait()
	})
}

// openStores opens the cluster's folder, and readers for parts of it.
func openStores(ctx context.Context, o Options, conf *controllerconfig.Config) (store.Store, controller.Stored, error) {
	stores := onmachine.LocalStores(o.Machines, open.Options{Env: o.Env, HTTP: &http.Client{Timeout: time.Minute}, Account: sdkchain.Credentials{}})
	base, err := stores.Open(ctx, conf.ConfigBase)
	if err != nil {
		return nil, controller.Stored{}, err
	}
	secrets := conf.SecretStore
	if secrets == "" {
		secrets = strings.TrimSuffix(conf.ConfigBase, "/") + "/secrets"
	}
	secret, err := stores.Open(ctx, secrets)
	if err != nil {
		return nil, controller.Stored{}, err
	}
	return base, controller.Stored{Base: base, Secrets: secret}, nil
}

// connect connects to the configuration's platform.
func connect(ctx context.Context, o Options, conf *controllerconfig.Config, stored controller.Stored, caller func() (*tls.Certificate, error)) (incluster.Control, error) {
	var known []string
	for _, p := range o.Platforms {
		if p.Name == conf.Cloud {
			return p.Connect(ctx, incluster.World{Config: conf, Stored: stored, Env: o.Env, Hostname: os.Hostname, Now: time.Now, CallerCertificate: caller})
		}
		known = append(known, p.Name)
	}
	return incluster.Control{}, fmt.Errorf("machines of the cloud %q cannot prove their identity yet; supported clouds are %s", conf.Cloud, strings.Join(known, ", "))
}
