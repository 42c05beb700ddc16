package kops

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/observe"
	"kops.local/kops/internal/engine/past"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model"
	"kops.local/kops/internal/model/managedfile"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/validate"
	"kops.local/kops/internal/spec/versions"
)

// prepared is a cluster on its way from the store to a graph, with what is
// needed to observe and change its world.
type prepared struct {
	cluster *Cluster
	done    *complete.Cluster
	gathered
	warnings diag.List
	provider platform.Provider
	session  *platform.Session
	memo     past.Memo
	places   *places
	model    platform.Model
	graph    *graph.Graph
	kinds    []resource.Any
	// scope reports which unwanted objects an update of a part may delete; nil: all.
	scope  func(kind string, obj any) bool
	client *Client
	// early, when not nil, is the platform's client for one observation, which is asking already.
	early any
	// patience is how long one step is tried again; 0 means the executor's.
	patience time.Duration
}

// prepare takes a cluster through completion, validation and the model.
func (c *Client) prepare(ctx context.Context, name string, o UpdateOptions) (*prepared, error) {
	c.cfg.Phase("read")
	cl, err := c.Cluster(ctx, name)
	if err != nil {
		return nil, err
	}
	p := &prepared{cluster: cl, client: c, warnings: slices.Clone(cl.Warnings)}
	if err := c.connect(ctx, p, o); err != nil {
		return nil, err
	}
	if err := c.gather(ctx, p, o); err != nil {
		return nil, err
	}
	for _, stage := range []func(context.Context, *prepared, UpdateOptions) error{c.complete, c.guard, c.validate, c.build} {
		if err := stage(ctx, p, o); err != nil {
			return nil, err
		}
	}
	if err := p.limit(o); err != nil {
		return nil, err
	}
	p.kinds = append(managedfile.Kinds(), p.provider.Kinds...)
	return p, nil
}

// targeted returns the platform, which must have the target.
func (c *Client) targeted(id api.CloudProviderID, target string) (platform.Provider, error) {
	p, err := c.provider(string(id))
	if err == nil {
		err = validate.Target(id, target, c.cfg.Features).Err()
	}
	if err == nil && target == "terraform" && p.Terraform == nil {
		err = fmt.Errorf("clusters on %s cannot be written as Terraform; leave out --target terraform", p.Title)
	}
	return p, err
}

// connect opens the cluster's platform and the places of its files.
func (c *Client) connect(ctx context.Context, p *prepared, o UpdateOptions) (err error) {
	if p.provider, err = c.targeted(p.cluster.Spec.CloudProviderID(), o.target); err != nil {
		return err
	}
	var cfg platform.Config
	if p.provider.Region != nil {
		if cfg.Region, err = p.provider.Region(p.cluster.Spec); err != nil {
			return err
		}
	}
	p.memo = c.memo(p.cluster.Spec.Name, o.Refresh)
	cfg.Memo = p.memo
	if p.session, err = p.provider.Connect(ctx, cfg); err != nil {
		return err
	}
	p.places, err = c.openPlaces(ctx, p.cluster, o.target != "terraform")
	return err
}

// complete infers what the user did not say.
func (c *Client) complete(_ context.Context, p *prepared, _ UpdateOptions) error {
	var findings diag.List
	in := c.completionInput(p.cluster, p.facts, p.channel)
	in.RunningVersion = p.running
	p.done, findings = complete.Complete(in)
	if err := p.judge(findings); err != nil {
		return err
	}
	if p.done.NodeVersion != p.done.Spec.Spec.KubernetesVersion {
		p.warnings = append(p.warnings, diag.Finding{
			Object: api.KindCluster + "/" + p.cluster.Spec.Name, Path: "spec.kubernetesVersion", Value: p.done.Spec.Spec.KubernetesVersion,
			Rule: "running-version", Warning: true, Message: "workers stay at " + p.done.NodeVersion + ", which the control plane still runs",
			Remedy: "replace the control plane's machines, and update the cluster again",
		})
	}
	return nil
}

// validate checks the completed cluster.
func (c *Client) validate(_ context.Context, p *prepared, _ UpdateOptions) error {
	findings := validate.All(validate.Input{Cluster: p.done.Spec, Groups: p.done.Groups, Strict: true, Facts: p.facts, Features: c.cfg.Features})
	findings = append(findings, validate.NoEffect(p.cluster.Spec, p.cluster.Groups)...)
	findings = append(findings, c.onlyHere(p.cluster.Spec)...)
	return p.judge(append(findings, validate.Objects(p.cluster.Additional)...))
}

func (c *Client) completionInput(cl *Cluster, f *facts.Facts, ch *versions.Channel) complete.Input {
	return complete.Input{Cluster: cl.Spec, Groups: cl.Groups, Facts: f, Channel: ch, KopsVersion: c.cfg.Version,
		ConfigBase: c.configBase(cl.Spec.Name), Features: c.cfg.Features}
}

// judge keeps warnings and returns errors.
func (p *prepared) judge(findings diag.List) error {
	if err := findings.Err(); err != nil {
		return err
	}
	p.warnings = append(p.warnings, findings...)
	return nil
}

// build makes the graph: the managed files first, then the platform's resources.
func (c *Client) build(ctx context.Context, p *prepared, o UpdateOptions) error {
	c.cfg.Phase("model")
	in, err := p.modelInput()
	if err != nil {
		return err
	}
	if in.PublicDiscovery, err = p.places.private(ctx, p.memo, o.Apply || o.target == "terraform"); err != nil {
		return err
	}
	in.AllowUnverified = o.AllowUnverified
	if err := c.lookUpHashes(ctx, &in); err != nil {
		return err
	}
	p.facts = in.Facts
	if in, err = in.Shared(); err != nil {
		return err
	}
	nodes, findings, err := model.Build(in)
	if err != nil {
		return err
	}
	var keysets []resource.Address
	for _, n := range nodes {
		if n.Address.Kind == managedfile.Keyset.Name {
			keysets = append(keysets, n.Address)
		}
	}
	p.warnings = append(p.warnings, findings...)
	p.graph = &graph.Graph{}
	if err := p.graph.Add(nodes...); err != nil {
		return err
	}
	at := managedfile.LocationOf(p.done.Spec.Spec.ConfigStore.Base)
	p.model = platform.Model{Cluster: p.done.Spec, Groups: p.done.Groups, Facts: p.facts, SSHKeys: p.sshKeys,
		FilesBucket: at.Store, FilesRegion: c.cfg.FilesRegion, Keysets: keysets,
		UserData: func(group *api.InstanceGroup, apiHost resource.Value) (resource.Content, error) {
			return model.UserData(in, group, apiHost)
		},
		Script: func(group *api.InstanceGroup, apiHost resource.Value) (resource.Node, error) {
			return model.Script(in, group, apiHost, keysets)
		}}
	return p.provider.Model(p.model, p.graph)
}

// modelInput is what the managed files follow from.
func (p *prepared) modelInput() (model.Input, error) {
	cfg := p.client.cfg
	in := model.Input{Cluster: p.done.Spec, Groups: p.done.Groups, NodeVersion: p.done.NodeVersion, Version: cfg.Version,
		Facts: p.facts, Environment: cfg.Environment, Tokens: p.tokens, EncryptionConfig: p.encryption}
	var err error
	if p.provider.Region != nil {
		if in.Region, err = p.provider.Region(p.done.Spec); err != nil {
			return in, err
		}
	}
	// The completed spec may need keysets that the stored one did not show.
	if in.Keysets, _, err = pki.Ensure(p.keysets, pki.KeysetNames(p.done.Spec), p.client.issuer()); err != nil {
		return in, err
	}
	for _, o := range p.cluster.Additional {
		doc, err := document(o)
		if err != nil {
			return in, err
		}
		in.Objects = append(in.Objects, doc)
	}
	return in, nil
}

// askAhead begins to observe the platform while the graph is still being made.
func (p *prepared) askAhead(ctx context.Context, asking *sync.WaitGroup) {
	if p.session.Ahead == nil {
		return
	}
	early := p.session.Snapshot()
	p.early = early
	asking.Go(func() { p.session.Ahead(ctx, early, p.cluster.Spec.Name) })
}

// snapshot observes the world, from what was asked ahead on.
func (p *prepared) snapshot(ctx context.Context, all bool) (plan.Snapshot, error) {
	client := p.early
	if p.early = nil; client == nil {
		client = p.fresh()
	}
	return p.observing(client).Snapshot(ctx, p.cluster.Spec.Name, p.kinds, p.graph, all)
}

// fresh returns the platform's client for one observation: what several kinds share
// is asked once.
func (p *prepared) fresh() any {
	if p.session.Snapshot == nil {
		return p.session.Client
	}
	return p.session.Snapshot()
}

// observer lists kinds as they are now.
func (p *prepared) observer() *observe.Observer { return p.observing(p.fresh()) }

func (p *prepared) observing(platform any) *observe.Observer {
	return &observe.Observer{Sleep: p.client.cfg.Sleep, Limit: 32, Client: p.clients(platform)}
}

// clients returns the client of each kind: that of the platform, or a place of files.
func (p *prepared) clients(platform any) func(kind string) any {
	wanted := managedfile.Wanted(p.graph) // digests of all files, so once and not for each
	return func(kind string) any {
		switch kind {
		case managedfile.Keyset.Name:
			return p.places.keys
		case managedfile.Secret.Name:
			return p.places.secrets
		case managedfile.S3Object.Name:
			return managedfile.Files{Areas: p.places.buckets, Wanted: wanted}
		case managedfile.StoreFile.Name:
			return managedfile.Files{Areas: p.places.others, Wanted: wanted}
		}
		return platform
	}
}
