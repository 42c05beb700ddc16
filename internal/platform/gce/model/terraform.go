package model

import (
	"maps"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/render/terraform"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/gce/gcename"
	"kops.local/kops/internal/platform/gce/kinds"
	"kops.local/kops/internal/spec/fill"
)

// The provider's name, and the required versions: of Terraform and of the provider.
const (
	providerName     = "google"
	terraformVersion = ">= 0.15.0"
	providerVersion  = ">= 5.11.0"
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
		extra = fill.Or(t.Terraform, extra)
	}
	own := map[string]string{"project": m.project, "region": m.region}
	attributes := maps.Clone(own)
	maps.Copy(attributes, extra.ProviderExtraConfig)
	doc.Providers = []terraform.Provider{{Name: providerName, Attributes: attributes}}
	m.AddFilesProvider(&doc, own, extra.FilesProviderExtraConfig)
	return doc, nil
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
