package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/node/agent/node"
	"kops.local/kops/internal/node/host"
)

// configFile is the configuration of the last run. A renewal goes by it: that of the
// cluster may be another by now, of which a machine learns when it is replaced.
const configFile = "/var/lib/kops/nodeupconfig.yaml"

// KubeletCertificate returns what reads the certificate by which the kubelet of a
// machine, whose file system is at root, calls the API: with it the machine asks
// kops-controller for others while its node is there. What it returns is nil where there is none.
func KubeletCertificate(root string) func() *tls.Certificate {
	return func() *tls.Certificate { return host.ClientCertificate(filepath.Join(root, node.KubeletKubeconfig)) }
}

// Renew issues the machine's certificates anew that are near their end, and starts anew
// what reads these at its start alone. Nothing else of the machine is changed, and it
// needs no configuration that is of today.
func (a *Agent) Renew(ctx context.Context, boot []byte) error {
	r := &run{Agent: a, record: &recorder{now: a.Clock.Now}, input: newInput(), renewing: true}
	g, err := r.renewal(ctx, boot)
	if err != nil {
		return fmt.Errorf("renew the machine's certificates: %w", clockRemedy(err))
	}
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

// renewal is the part of the machine's graph that is to be renewed.
func (r *run) renewal(ctx context.Context, boot []byte) (*graph.Graph, error) {
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
	g, err := node.Build(r.input)
	if err != nil {
		return nil, err
	}
	due, err := r.due(ctx, g)
	if err != nil {
		return nil, err
	}
	return node.Renewal(g, due)
}

// due returns what says which certificates are to be issued anew: those that are near
// their end, or not there.
func (r *run) due(ctx context.Context, g *graph.Graph) (func(*host.Certificate) bool, error) {
	kind := host.Certificates.Erase()
	var s resource.Scope
	for n := range g.All() {
		if n.Address.Kind == kind.KindName() {
			s.Names = append(s.Names, kind.KeyOf(n.Want))
		}
	}
	found, err := r.observer().List(ctx, kind, s)
	if err != nil {
		return nil, err
	}
	return func(c *host.Certificate) bool {
		return !slices.ContainsFunc(found, func(o resource.Object) bool {
			have, ok := o.Got.(*host.Certificate)
			return ok && o.Key == kind.KeyOf(c) && have.Valid
		})
	}, nil
}
