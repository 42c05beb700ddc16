package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model"
	"kops.local/kops/internal/model/managedfile"
	"kops.local/kops/internal/ops/delivery"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/spec/diag"
)

// Desired is the desired state of an opened cluster: a graph, and the existing objects that it is
// compared with.
type Desired struct {
	*Opened
	Graph *graph.Graph
	Kinds []resource.Any
	// scope reports which unwanted objects a plan for a part may delete; nil means all.
	scope func(k resource.Any, obj any) bool
	// prefetched is Gathered's; it is used for the first observation.
	prefetched any
	// archive has the contents of kops' own programs; nil if none are written.
	archive *delivery.Archive
}

// Modelled is a completed cluster as a graph of all its resources.
type Modelled struct {
	Desired
	// Model is what the platform's part of the graph was created from.
	Model platform.Model
	// Keysets are the gathered ones.
	Keysets  map[string]*pki.Keyset
	Warnings diag.List
}

// ModelOptions specify how a graph is built.
type ModelOptions struct {
	// AllowUnverified lets machines install files whose SHA-256 is not known.
	AllowUnverified bool
	// Written means that the files will be written.
	Written bool
}

// Model builds the graph: the managed files first, then the platform's resources.
func (g *Gathered) Model(ctx context.Context, c *Completed, o ModelOptions) (*Modelled, error) {
	in, err := g.modelInput(ctx, c)
	if err != nil {
		return nil, err
	}
	if in.PublicDiscovery, err = g.Places.private(ctx, g.memo, o.Written); err != nil {
		return nil, err
	}
	in.AllowUnverified = o.AllowUnverified
	in, archive, err := g.programs(ctx, in)
	if err != nil {
		return nil, err
	}
	if in, err = g.withSigned(ctx, in); err != nil {
		return nil, err
	}
	if in, err = g.World.withHashes(ctx, in); err != nil {
		return nil, err
	}
	at := g.World.Buckets.Location(c.Done.Spec.Spec.ConfigStore.Base)
	m := platform.Model{Cluster: c.Done.Spec, Groups: c.Done.Groups, Hosts: g.Cluster.Hosts, Facts: in.Facts, SSHKeys: g.sshKeys,
		FilesBucket: at.Store, FilesRegion: g.World.FilesRegion, FilesEndpoint: g.World.endpoint(), StoreKeys: platform.StoreKeys{Place: in.StoreKeys().Name, Pair: g.World.StoreKeys}}
	if of := g.Provider.Declare.APIHost; of != nil {
		if in.APIHost, err = of(m); err != nil {
			return nil, err
		}
	}
	if in, err = in.Shared(); err != nil {
		return nil, err
	}
	nodes, findings, err := model.Build(in)
	if err != nil {
		return nil, err
	}
	keysets := model.ProgramAddresses(nodes)
	for _, n := range nodes {
		if n.Address.Kind == managedfile.Keyset.Name {
			keysets = append(keysets, n.Address)
		}
	}
	m.Keysets = keysets
	m.UserData = func(group *api.InstanceGroup, apiHosts ...resource.Value) (resource.Content, error) {
		return model.UserData(in, group, apiHosts...)
	}
	m.Script = func(group *api.InstanceGroup, apiHost resource.Value) (resource.Node, error) {
		return model.Script(in, group, apiHost, keysets)
	}
	// files that depend on the platform's resources follow them
	late := func(n resource.Node) bool { return len(n.Kind.Schema().Refs(n.Want)) > 0 }
	all := &graph.Graph{}
	if err := all.Add(slices.DeleteFunc(slices.Clone(nodes), late)...); err != nil {
		return nil, err
	}
	if err := g.Provider.Declare.Model(m, all); err != nil {
		return nil, err
	}
	if err := all.Add(slices.DeleteFunc(slices.Clone(nodes), func(n resource.Node) bool { return !late(n) })...); err != nil {
		return nil, err
	}
	w := Desired{Opened: g.Opened, Graph: all, archive: archive, Kinds: append(g.World.Buckets.Kinds(), g.Provider.Kinds...), prefetched: g.prefetched}
	return &Modelled{Desired: w, Model: m, Keysets: g.Keysets, Warnings: slices.Concat(c.Warnings, findings)}, nil
}

// modelInput returns what the managed files are created from.
func (g *Gathered) modelInput(ctx context.Context, c *Completed) (model.Input, error) {
	in := c.files()
	in.APINames = g.kept.apiNames
	in.OwnStoreKeys = g.World.StoreKeys
	in.Environment, in.Tokens, in.EncryptionConfig, in.DockerConfig, in.Secrets = g.World.Environment, g.secrets.tokens, g.secrets.encryption, g.secrets.docker, g.secrets.inManifests
	var err error
	if of := g.Provider.Secrets; of != nil {
		own, err := of()
		if err != nil {
			return in, err
		}
		in.PlatformSecrets, in.Secrets = own, maps.Clone(in.Secrets)
		maps.Copy(in.Secrets, own)
	}
	if g.Provider.Lookup.Region != nil {
		if in.Region, err = g.Provider.Lookup.Region(c.Done.Spec); err != nil {
			return in, err
		}
	}
	// The completed spec may need keysets that were not known from the stored one.
	if in.Keysets, _, err = pki.Ensure(g.Keysets, pki.KeysetNames(c.Done.Spec), g.World.Issuer(ctx)); err != nil {
		return in, err
	}
	in.Objects, err = g.documents()
	return in, err
}

// documents returns the user's own objects.
func (o *Opened) documents() ([]map[string]any, error) {
	var out []map[string]any
	for _, of := range o.Cluster.Additional {
		doc, err := document(of)
		if err != nil {
			return nil, err
		}
		out = append(out, doc)
	}
	return out, nil
}

// files returns the part of the managed files' input that the completed cluster provides.
func (c *Completed) files() model.Input {
	return model.Input{Traits: &c.Provider.Traits, Cluster: c.Done.Spec, Groups: c.Done.Groups, NodeVersion: c.Done.NodeVersion, Version: c.World.Version, Facts: c.Facts, Buckets: c.World.Buckets}
}

// Fetchable checks that the machines of a cluster can fetch what they need, and, if stores can be
// reached, that the stores exist that the spec names in addition to the cluster's own.
func (c *Completed) Fetchable(ctx context.Context) error {
	if err := model.Fetchable(c.files()); err != nil || c.World.Offline {
		return err
	}
	return c.Places.exist(ctx)
}

// document returns an additional object as a generic document.
func document(o api.Object) (map[string]any, error) {
	data, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", api.Name(o), err)
	}
	var doc map[string]any
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("encode %s: %w", api.Name(o), err)
	}
	return doc, nil
}
