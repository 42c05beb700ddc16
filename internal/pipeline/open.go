package pipeline

import (
	"context"
	"fmt"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/past"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/spec/validate"
	"kops.local/kops/internal/store/clusterstore"
)

// Terraform is the target of a cluster that Terraform creates.
const Terraform = "terraform"

// OpenOptions specify how a cluster is opened.
type OpenOptions struct {
	// Target is what the graph is turned into: Terraform, or "" for the platform itself.
	Target string
	// Refresh ignores what earlier runs observed.
	Refresh bool
}

// Opened is a stored cluster with its platform and the folders of its files. No request was made to
// either yet.
type Opened struct {
	World    *World
	Cluster  *clusterstore.Contents
	Provider platform.Provider
	Session  *platform.Session
	Places   *Places
	target   string
	memo     past.Memo
}

// Open opens the platform of a cluster and the folders of its files.
func (w *World) Open(ctx context.Context, cl *clusterstore.Contents, o OpenOptions) (*Opened, error) {
	p, err := w.Targeted(cl.Spec.CloudProviderID(), o.Target)
	if err != nil {
		return nil, err
	}
	cfg := platform.Config{Cluster: cl.Spec}
	if p.Lookup.Region != nil {
		if cfg.Region, err = p.Lookup.Region(cl.Spec); err != nil {
			return nil, err
		}
	}
	cfg.Hosts, cfg.Memo = cl.Hosts, w.observations(cl.Spec.Name, o.Refresh)
	session, err := p.Connect(ctx, cfg)
	if err != nil {
		return nil, err
	}
	places, err := w.places(ctx, cl, o.Target != Terraform)
	if err != nil {
		return nil, err
	}
	return &Opened{World: w, Cluster: cl, Provider: p, Session: session, Places: places, target: o.Target, memo: cfg.Memo}, nil
}

// Targeted returns the platform, which must support the target.
func (w *World) Targeted(id api.CloudProviderID, target string) (platform.Provider, error) {
	p, err := w.Provider(string(id))
	if err == nil {
		err = validate.Target(&p.Traits, target, w.Features).Err()
	}
	if err == nil && target == Terraform && p.Declare.Terraform == nil {
		err = fmt.Errorf("clusters on %s cannot be written as Terraform; leave out option:Target terraform", p.Title)
	}
	return p, err
}
