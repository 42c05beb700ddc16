package model

import (
	"cmp"
	"fmt"
	"strconv"

	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/render/terraform"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/hetzner/kinds"
	"kops.local/kops/internal/platform/hetzner/spec"
)

// The source of the provider, and the required version.
const (
	providerSource  = "hetznercloud/hcloud"
	providerVersion = ">= 1.35.1"
)

// Terraform returns the Terraform document of a graph to which Build has added resources.
func Terraform(in platform.Model, g *graph.Graph) (terraform.Document, error) {
	m, err := newModel(in)
	if err != nil {
		return terraform.Document{}, err
	}
	doc := m.TerraformDocument(g, platform.TerraformProvider{Source: providerSource, Version: providerVersion}, map[string]string{"region": m.zone})
	for n := range g.All() {
		if err := m.lookUp(doc, n); err != nil {
			return doc, err
		}
	}
	return doc, nil
}

// lookUp adds how a node is referenced that exists and is not written.
func (m *model) lookUp(doc terraform.Document, n resource.Node) error {
	switch x := n.Want.(type) {
	case *kinds.Network:
		if n.Adopt == "" {
			doc.Data[n.Address] = terraform.Lookup{By: map[string]string{"name": x.Name}}
			return nil
		}
		number := cmp.Or(spec.NetworkNumber(m.facts), n.Adopt)
		if _, err := strconv.ParseInt(number, 10, 64); err != nil {
			return fmt.Errorf("the number of the network %s is not in the facts; look it up again, or set spec.networkID to the number", n.Adopt)
		}
		doc.Data[n.Address] = terraform.Lookup{Known: map[string]string{"id": number}}
	case *kinds.SSHKey:
		doc.Data[n.Address] = terraform.Lookup{By: map[string]string{"name": x.Name}}
	}
	return nil
}
