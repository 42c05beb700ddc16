package model

import (
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/render/terraform"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/gce/gcename"
	"kops.local/kops/internal/platform/gce/kinds"
)

// The source of the provider, and the required version.
const (
	providerSource  = "hashicorp/google"
	providerVersion = ">= 5.11.0"
)

// Terraform returns the Terraform document of a graph to which Build has added resources: its
// outputs, its providers, and how existing resources are referenced.
func Terraform(in platform.Model, g *graph.Graph) (terraform.Document, error) {
	m, err := newModel(in)
	if err != nil {
		return terraform.Document{}, err
	}
	own := map[string]string{"project": m.project, "region": m.region}
	doc := m.TerraformDocument(g, platform.TerraformProvider{Source: providerSource, Version: providerVersion, Attributes: own}, own)
	doc.Data = m.lookups(g)
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
