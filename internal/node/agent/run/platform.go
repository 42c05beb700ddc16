package run

import (
	"context"
	cryptorand "crypto/rand"
	"os"

	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/agent"
	"kops.local/kops/internal/node/agent/node"
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/node/host"
	"kops.local/kops/internal/platform/onmachine"
)

// world returns what a platform needs from this program.
func (o Options) world() onmachine.World {
	return onmachine.World{Root: o.Root, Env: o.Env, HTTP: host.NewHTTPClient(o.proxy()), Direct: host.NewHTTPClient(nil),
		Hostname: os.Hostname, Now: o.Clock.Now, Rand: cryptorand.Reader}
}

// platformSecrets returns the names of the secrets with which control planes use a platform.
func (o Options) platformSecrets(platform string) []string {
	p, _ := onmachine.Find(o.Platforms, platform)
	return p.Secrets
}

// completeLaunch tells the scaling group that waits for the machine that it has started.
func (o Options) completeLaunch(ctx context.Context, b *nodeconfig.Boot, h node.Host) error {
	p, _ := onmachine.Find(o.Platforms, b.CloudProvider)
	if p.OnLaunched == nil {
		return nil
	}
	return p.OnLaunched(ctx, o.world(), onmachine.Facts{ProviderID: h.ProviderID, Waiting: h.ScalingGroup, Warming: h.Warming})
}

// join returns a client of kops-controller.
func (o Options) join(b *nodeconfig.Boot, failed func(error)) (agent.Joiner, error) {
	p, _ := onmachine.Find(o.Platforms, b.CloudProvider)
	if p.Prove == nil {
		return nil, fault.New(fault.Permanent, "this version of nodeup cannot prove the identity of a machine of %s", b.CloudProvider)
	}
	prover, err := p.Prove(o.world())
	if err != nil {
		return nil, err
	}
	transport, err := bootstrap.NewTLS(agent.Authorities(o.Root, b), b.ConfigServer.TLSServerName, agent.KubeletCertificate(o.Root))
	if err != nil {
		return nil, err
	}
	transport.Now = o.Clock.Now
	client := &bootstrap.Client{Servers: b.ConfigServer.Servers, Transport: transport, Prover: prover, Clock: o.Clock,
		Failed: func(_ string, _ int, err error) { failed(err) }}
	if p.Traits.CalledBack {
		client.Listener = &bootstrap.Listener{Cluster: b.ClusterName, Authorities: agent.Authorities(o.Root, b), Now: o.Clock.Now, Rand: cryptorand.Reader}
	}
	return agent.Controller{Client: client}, nil
}
