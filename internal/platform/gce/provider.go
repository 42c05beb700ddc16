// Package gce is Google Compute Engine as a platform of kops: it combines the kinds of resources,
// the model that declares them, the lookup of facts, and the operations on machines.
//
// It must not know how plans are made or carried out, nor read the environment.
package gce

import (
	"cmp"
	"context"
	"net/http"
	"os/exec"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/observe"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/gce/gceapi"
	"kops.local/kops/internal/platform/gce/gcename"
	"kops.local/kops/internal/platform/gce/kinds"
	"kops.local/kops/internal/platform/gce/lookup"
	"kops.local/kops/internal/platform/gce/model"
	"kops.local/kops/internal/platform/gce/spec"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/newcluster"
)

// Options say how Google's services are reached. Credentials are found in the same places as by
// Google's own tools.
type Options struct {
	// Endpoint replaces the addresses of all services.
	Endpoint string
	// Project is used if a cluster does not set its own.
	Project string
	HTTP    *http.Client
	Version string // of this program, for the user agent
}

// In returns the platform as configured by a program's environment.
func In(w platform.World) platform.Provider {
	return Provider(Options{Endpoint: w.Getenv("KOPS_GCE_ENDPOINT"), HTTP: w.HTTP, Version: w.Version,
		Project: cmp.Or(w.Getenv("GOOGLE_CLOUD_PROJECT"), w.Getenv("CLOUDSDK_CORE_PROJECT"))})
}

// Provider returns the platform.
func Provider(o Options) platform.Provider {
	return platform.Provider{
		Platform: spec.Platform(), Remote: true,
		Kinds: kinds.All(), Limits: limits(),
		Connect: o.connect,
		Lookup:  platform.Lookup{Region: model.Region, Facts: lookUp, NewClusterFacts: newClusterFacts, Endpoint: endpoint},
		Declare: platform.Declare{Model: model.Build, Shared: sharedObjects, Terraform: model.Terraform},
		Fleet:   platform.Fleet{Machines: listMachines, Roll: roll(), Room: room, BootRecord: bootRecord},
	}
}

// limits bounds the number of concurrent calls, well below the per-project rates that the services
// document.
func limits() map[string]int {
	return map[string]int{"compute": 32, "iam": 8, "cloudresourcemanager": 2, "storage": 32, "dns": 4, "store": 32}
}

func (o Options) connect(ctx context.Context, c platform.Config) (*platform.Session, error) {
	cfg := gceapi.Config{Project: o.Project, Region: c.Region, Endpoint: o.Endpoint, HTTPClient: o.HTTP, UserAgent: strings.TrimSuffix("kops/"+o.Version, "/")}
	if c.Cluster != nil && c.Cluster.Spec.CloudProvider.GCE != nil {
		cfg.Project = cmp.Or(c.Cluster.Spec.CloudProvider.GCE.Project, cfg.Project)
	}
	clients, err := gceapi.Connect(ctx, cfg)
	if err != nil {
		return nil, err
	}
	client := kinds.NewClient(*clients)
	client.Past, client.Buckets = c.Memo, bucketsOf(c.Cluster)
	return &platform.Session{Client: client, Snapshot: func() any { return client.Snapshot() },
		Prefetch: func(ctx context.Context, snapshot any, cluster string) {
			observe.Prefetch(ctx, kinds.All(), snapshot, cluster)
		}}, nil
}

// bucketsOf returns the buckets in which a cluster's accounts may have roles.
func bucketsOf(c *api.Cluster) []string {
	if c == nil {
		return nil
	}
	urls := []string{c.Spec.ConfigStore.Base}
	for _, e := range c.Spec.EtcdClusters {
		if e.Backups != nil {
			urls = append(urls, e.Backups.BackupStore)
		}
	}
	var out []string
	for _, u := range urls {
		if at, ok := strings.CutPrefix(u, "gs://"); ok {
			bucket, _, _ := strings.Cut(at, "/")
			out = append(out, bucket)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func lookUp(ctx context.Context, s *platform.Session, c *api.Cluster, groups []*api.InstanceGroup) (*facts.Facts, error) {
	k := s.Client.(*kinds.Client)
	return lookup.Facts(ctx, &k.Clients, k.Past, lookup.ClusterQuery(c, groups))
}

// newClusterFacts looks up what a new cluster may be created from, in the project that the user names or
// that gcloud is configured with.
func newClusterFacts(ctx context.Context, s *platform.Session, o newcluster.Options, w newcluster.World) (*facts.Facts, error) {
	c := s.Client.(*kinds.Client).Clients
	if o.Own["project"] == "" && c.Project == "" {
		text, _ := exec.CommandContext(ctx, "gcloud", "config", "get-value", "project").Output() // without gcloud, the option is required
		c.Project = strings.TrimSpace(string(text))
	}
	return lookup.Facts(ctx, &c, nil, lookup.NewClusterQuery(o, w))
}

// endpoint returns the address of the API's balancer: the public one, if there is one.
func endpoint(ctx context.Context, s *platform.Session, c *api.Cluster) (string, error) {
	rules, err := kinds.ForwardingRules.List(ctx, s.Client.(*kinds.Client), resource.Scope{Cluster: c.Name})
	if err != nil {
		return "", err
	}
	address := ""
	for _, r := range rules {
		object, _ := gcename.Part(r.Name, c.Name)
		switch {
		case object == "api" && r.Scheme == "EXTERNAL":
			return r.Address.Text(), nil
		case address == "" && strings.HasPrefix(object, "api-"):
			address = r.Address.Text()
		}
	}
	return address, nil
}
