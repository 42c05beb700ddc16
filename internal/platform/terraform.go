package platform

import (
	"maps"
	"path"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/render/terraform"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/spec/fill"
)

// terraformVersion is the version of Terraform that documents need.
const terraformVersion = ">= 0.15.0"

// TerraformProvider is a platform's own Terraform provider.
type TerraformProvider struct {
	// Source is where Terraform gets it, NAMESPACE/NAME, and Version is the required version.
	Source, Version string
	// Attributes are those that it has unless the spec replaces them.
	Attributes map[string]string
}

// TerraformDocument returns the document of a graph, without data: its providers, and outputs, to which
// the cluster's name is added.
func (m Model) TerraformDocument(g *graph.Graph, p TerraformProvider, outputs map[string]string) terraform.Document {
	extra := m.TerraformSpec()
	attributes := map[string]string{}
	maps.Copy(attributes, p.Attributes)
	maps.Copy(attributes, extra.ProviderExtraConfig)
	name := path.Base(p.Source)
	doc := terraform.Document{
		Graph: g, Data: map[resource.Address]terraform.Lookup{}, Compatible: true, RequiredVersion: terraformVersion,
		Outputs:           map[string]terraform.Expression{"cluster_name": terraform.Of(resource.Lit(m.Cluster.Name))},
		RequiredProviders: map[string]terraform.RequiredProvider{name: {Source: p.Source, Version: p.Version}},
		Providers:         []terraform.Provider{{Name: name, Attributes: attributes}},
	}
	for output, value := range outputs {
		doc.Outputs[output] = terraform.Of(resource.Lit(value))
	}
	m.addFilesProvider(&doc, p.Attributes, extra.FilesProviderExtraConfig)
	return doc
}

// TerraformSpec returns what the spec says of Terraform.
func (m Model) TerraformSpec() api.TerraformSpec {
	return fill.Or(fill.Or(m.Cluster.Spec.Target, api.TargetSpec{}).Terraform, api.TerraformSpec{})
}
