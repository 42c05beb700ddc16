package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/node/agent/node"
	"kops.local/kops/internal/node/host"
)

// configFile is the configuration of the last run, which a renewal uses: the cluster's may have
// changed since, and a machine gets the new one when it is replaced.
const configFile = "/var/lib/kops/nodeupconfig.yaml"

// KubeletCertificate returns what reads the certificate by which the kubelet of a
// machine, whose file system is at root, calls the API: with it the machine asks
// kops-controller for others while its node is there. What it returns is nil where there is none.
func KubeletCertificate(root string) func() *tls.Certificate {
	return func() *tls.Certificate { return host.ClientCertificate(filepath.Join(root, node.KubeletKubeconfig)) }
}

// Renew reissues the machine's certificates that are near their end, and restarts the components
// that read them only at startup: one each time, unless one is urgent. Nothing else on the machine
// changes, and it needs no current configuration. The report of the machine's last start gets the
// phase of the renewal, and the certificates as they are afterwards.
func (a *Agent) Renew(ctx context.Context, boot []byte) error {
	told := a.recorder()
	if a.Last != nil {
		told.report = *a.Last
	}
	r := &run{Agent: a, record: &recorder{now: a.Clock.Now}, input: newInput(), renewing: true, shapes: map[string]string{}}
	var g *graph.Graph
	err := told.anew(PhaseRenewal, func() (err error) {
		if g, err = r.graph(ctx, boot); err == nil {
			err = r.renew(ctx, g)
		}
		if err != nil {
			return fmt.Errorf("renew the machine's certificates: %w", clockRemedy(err))
		}
		return nil
	})
	if g != nil {
		told.certificates(r.Machine, g)
	}
	return err
}

// renew reissues the certificates, and then has containers read them.
func (r *run) renew(ctx context.Context, g *graph.Graph) error {
	due, err := node.Renewal(g, func(c *host.Certificate) host.Need { _, need := r.Machine.Held(*c); return need })
	if err == nil {
		err = r.change(ctx, due)
	}
	if err != nil {
		return err
	}
	readers, err := node.Readers(g)
	if err != nil {
		return err
	}
	return r.change(ctx, readers)
}

// change brings a part of the machine to its desired state.
func (r *run) change(ctx context.Context, g *graph.Graph) error {
	if g.Len() == 0 {
		return nil
	}
	have, err := r.observer().Snapshot(ctx, r.boot.ClusterName, host.Kinds(), g, false)
	if err != nil {
		return err
	}
	p, err := plan.Make(g, have, host.Kinds(), plan.Options{})
	if err != nil {
		return err
	}
	return r.apply(ctx, p)
}

// graph is what the machine is to hold by the configuration of its last run.
func (r *run) graph(ctx context.Context, boot []byte) (*graph.Graph, error) {
	var err error
	if r.boot, err = nodeconfig.ParseBoot(boot); err != nil {
		return nil, err
	}
	r.input.Boot = r.boot
	if r.text, err = os.ReadFile(filepath.Join(r.Machine.Root, configFile)); errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Wrap(fault.Gone, err, "replace the machine, which an earlier nodeup has made: kops rolling-update cluster --yes")
	}
	if err != nil {
		return nil, err
	}
	if err := r.parseConfig(); err != nil {
		return nil, err
	}
	if r.boot.ConfigBase == "" {
		if r.joiner, err = r.Join(r.boot, r.retrying); err != nil {
			return nil, err
		}
	}
	if err := r.readStore(ctx); err != nil {
		return nil, err
	}
	if r.input.Host, err = r.Detect(ctx, r.boot, r.input.Config); err != nil {
		return nil, fmt.Errorf("find out what machine this is: %w", err)
	}
	r.Machine.Authority, r.Machine.Warn = r.authority(), r.record.warn
	return node.Build(r.input)
}
