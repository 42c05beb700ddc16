package model

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/render/terraform"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model/managedfile"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/gce/gcename"
	"kops.local/kops/internal/platform/gce/kinds"
)

// The provider's name, and the required versions: of Terraform, of the provider, and of the managed
// files' provider.
const (
	providerName     = "google"
	terraformVersion = ">= 0.15.0"
	providerVersion  = ">= 5.11.0"
	filesVersion     = ">= 5.0.0"
)

// Terraform returns the Terraform document of a graph to which Build has added resources: its
// outputs, its providers, and how existing resources are referenced.
func Terraform(in platform.Model, g *graph.Graph) (terraform.Document, error) {
	m, err := newModel(in)
	if err != nil {
		return terraform.Document{}, err
	}
	doc := terraform.Document{
		Graph: g, Data: m.lookups(g), Compatible: true, RequiredVersion: terraformVersion,
		Outputs: map[string]terraform.Expression{
			"cluster_name": terraform.Of(resource.Lit(m.name)),
			"project":      terraform.Of(resource.Lit(m.project)),
			"region":       terraform.Of(resource.Lit(m.region)),
		},
		RequiredProviders: map[string]terraform.RequiredProvider{providerName: {Source: "hashicorp/" + providerName, Version: providerVersion}},
	}
	extra := api.TerraformSpec{}
	if t := m.spec.Target; t != nil {
		extra = valueOr(t.Terraform, extra)
	}
	doc.Providers = []terraform.Provider{m.provider(providerName, "", extra.ProviderExtraConfig)}
	if name, alias, ok := strings.Cut(filesProvider(g), "."); ok {
		needs, own := doc.RequiredProviders[name]
		if !own {
			needs = terraform.RequiredProvider{Source: "hashicorp/" + name, Version: filesVersion}
		}
		needs.Aliases = []string{name + "." + alias}
		doc.RequiredProviders[name] = needs
		doc.Providers = append(doc.Providers, m.provider(name, alias, extra.FilesProviderExtraConfig))
	}
	return doc, nil
}

// filesProvider returns the provider of the managed files in a graph, with its alias; "" if there
// are none.
func filesProvider(g *graph.Graph) string {
	for n := range g.All() {
		if f, ok := n.Want.(*managedfile.File); ok && f.Provider != "" {
			return f.Provider
		}
	}
	return ""
}

func (m *model) provider(name, alias string, extra map[string]string) terraform.Provider {
	p := terraform.Provider{Name: name, Alias: alias, Attributes: map[string]string{}}
	if name == providerName {
		p.Attributes["project"], p.Attributes["region"] = m.project, m.region
	} else if region := m.filesRegion(); region != "" {
		p.Attributes["region"] = region
	}
	maps.Copy(p.Attributes, extra)
	return p
}

// filesRegion returns the region of the managed files' bucket, if any cloud's facts contain it.
func (m *model) filesRegion() string {
	region := m.FilesRegion
	if m.Facts == nil {
		return region
	}
	for _, name := range slices.Sorted(maps.Keys(m.Facts.Clouds)) {
		region = cmp.Or(region, m.Facts.Clouds[name].Buckets[m.FilesBucket])
	}
	return region
}

// lookups returns how to reference resources that exist and are not written; for nearly all of
// them, the reference is derived from the name.
func (m *model) lookups(g *graph.Graph) map[resource.Address]terraform.Lookup {
	found := map[resource.Address]terraform.Lookup{}
	for n := range g.All() {
		if !n.Expect && n.Adopt == "" {
			continue
		}
		if l, ok := m.lookup(n.Want); ok {
			found[n.Address] = l
		}
	}
	return found
}

func (m *model) lookup(want any) (terraform.Lookup, bool) {
	in := func(place, what, name string) terraform.Lookup {
		return lookupByOutput("id", "projects/"+m.project+"/"+place+"/"+what+"/"+name)
	}
	region := "regions/" + m.region
	switch x := want.(type) {
	case *kinds.Network:
		return lookupByOutput("id", "projects/"+m.networkProject()+"/global/networks/"+x.Name), true
	case *kinds.Subnetwork:
		return lookupByOutput("id", "projects/"+m.networkProject()+"/"+region+"/subnetworks/"+x.Name), true
	case *kinds.Router:
		return lookupByOutput("id", x.Name), true
	case *kinds.HTTPHealthCheck:
		return in("global", "httpHealthChecks", x.Name), true
	case *kinds.TargetPool:
		return in(region, "targetPools", x.Name), true
	case *kinds.HealthCheck:
		return in(region, "healthChecks", x.Name), true
	case *kinds.BackendService:
		return in(region, "backendServices", x.Name), true
	case *kinds.Address:
		return terraform.Lookup{By: map[string]string{"name": x.Name}}, true
	case *kinds.InstanceGroupManager:
		return lookupByOutput("instance_group", "projects/"+m.project+"/zones/"+x.Zone+"/instanceGroups/"+x.Name), true
	case *kinds.ServiceAccount:
		return lookupByOutput("email", gcename.AccountEmail(x.AccountID, m.project)), true
	}
	return terraform.Lookup{}, false
}

func lookupByOutput(output, value string) terraform.Lookup {
	return terraform.Lookup{Known: map[string]string{output: value}}
}
