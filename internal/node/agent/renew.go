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

// KubeletCertificate returns a function that reads the certificate with which the machine's
// kubelet calls the API; root is the root of its file system. The machine uses it to request
// other certificates from kops-controller while its node exists. The function returns nil if
// there is no certificate.
func KubeletCertificate(root string) func() *tls.Certificate {
	return func() *tls.Certificate { return host.ClientCertificate(filepath.Join(root, node.KubeletKubeconfig)) }
}

// Renew reissues the machine's certificates that are about to expire, and restarts the components
// that read them only at startup: one component per run, unless a certificate is urgent. It
// changes nothing else on the machine, and needs no current configuration. It adds the phase of
// the renewal, and the certificates as they are afterwards, to the report of the machine's last
// start.
func (a *Agent) Renew(ctx context.Context, boot []byte) error {
	rec := a.recorder()
	if a.Last != nil {
		rec.report = *a.Last
	}
	r := &run{Agent: a, record: &recorder{now: a.Clock.Now}, input: newInput(), renewing: true, shapes: map[string]string{}}
	var g *graph.Graph
	err := rec.rerun(PhaseRenewal, func() (err error) {
		if g, err = r.graph(ctx, boot); err == nil {
			err = r.renew(ctx, g)
		}
		if err != nil {
			return fmt.Errorf("renew the machine's certificates: %w", clockRemedy(err))
		}
		return nil
	})
	if g != nil {
		rec.certificates(r.Machine, g)
	}
	return err
}

// renew reissues the certificates, and then has containers reread them.
func (r *run) renew(ctx context.Context, g *graph.Graph) error {
	due, err := node.Renewal(g, func(c *host.Certificate) host.Need { _, need := r.Machine.InspectCertificate(*c); return need })
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

// graph returns the machine's desired state according to the configuration of its last run.
func (r *run) graph(ctx context.Context, boot []byte) (*graph.Graph, error) {
	var err error
	if r.boot, err = nodeconfig.ParseBoot(boot); err != nil {
		return nil, err
	}
	r.input.Boot = r.boot
	if r.text, err = os.ReadFile(filepath.Join(r.Machine.Root, configFile)); errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Wrap(fault.Gone, err, "replace the machine, which was set up by an earlier nodeup: kops rolling-update cluster --yes")
	}
	if err != nil {
		return nil, err
	}
	if err := r.parseConfig(); err != nil {
		return nil, err
	}
	if r.boot.ConfigBase == "" {
		if r.joiner, err = r.Join(r.boot, r.recordRetry); err != nil {
			return nil, err
		}
	}
	if err := r.readStore(ctx); err != nil {
		return nil, err
	}
	if r.input.Host, err = r.Detect(ctx, r.boot, r.input.Config); err != nil {
		return nil, fmt.Errorf("identify this machine: %w", err)
	}
	r.Machine.Authority, r.Machine.Warn = r.authority(), r.record.warn
	return node.Build(r.input)
}
