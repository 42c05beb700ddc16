package model

import (
	"cmp"
	"fmt"
	"maps"

	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/render/terraform"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/aws/kinds"
)

// Versions of Terraform, and of its AWS provider, that the configuration needs.
const (
	terraformVersion = ">= 0.15.0"
	providerVersion  = ">= 5.0.0"
)

// Terraform returns the Terraform document of a graph that Build has added to: its outputs, its
// providers, and how to look up existing resources. It omits outputs of resources that an update
// leaves out. It returns an error if the provider does not support what the cluster needs.
func Terraform(in platform.Model, g *graph.Graph) (terraform.Document, error) {
	m, err := newModel(in)
	if err != nil {
		return terraform.Document{}, err
	}
	for n := range g.All() {
		if r, ok := n.Want.(*kinds.Route); ok && !r.Instance.IsZero() {
			return terraform.Document{}, fmt.Errorf("%s routes to a machine, which the AWS provider of Terraform does not support; route to a gateway, or update without Terraform", n.Address)
		}
	}
	doc := terraform.Document{
		Graph: g, Outputs: m.outputs(g), Data: lookups(g), Compatible: true, RequiredVersion: terraformVersion,
		RequiredProviders: map[string]terraform.RequiredProvider{
			"aws": {Source: "hashicorp/aws", Version: providerVersion, Aliases: []string{"aws.files"}}},
	}
	extra := m.TerraformSpec()
	attributes := map[string]string{"region": m.facts.Region}
	maps.Copy(attributes, extra.ProviderExtraConfig)
	files := m.Model
	files.FilesRegion = cmp.Or(m.FilesRegion, m.facts.Buckets[m.FilesBucket], m.facts.Region)
	doc.Providers = []terraform.Provider{{Name: "aws", Attributes: attributes}, files.FilesProvider("aws.files", extra.FilesProviderExtraConfig)}
	return doc, nil
}
