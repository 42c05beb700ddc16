package modeltest

import (
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/render/terraform"
	"kops.local/kops/internal/engine/render/terraform/schematest"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform"
)

// UserData stands in for the boot script, which another package generates. A bastion has one only with
// user data of its own.
func UserData(g *api.InstanceGroup, apiHosts ...resource.Value) (resource.Content, error) {
	if g.IsBastion() && len(g.Spec.AdditionalUserData) == 0 {
		return resource.Content{}, nil
	}
	lines := []resource.Value{resource.Lit("#!/bin/sh\necho " + g.Name + "\n")}
	for _, h := range apiHosts {
		lines = append(lines, resource.Lit("echo "), h, resource.Lit("\n"))
	}
	return resource.Text(resource.Concat(lines...)), nil
}

// Built returns the graph of a cluster, after nodes that exist before.
func Built(t testing.TB, of platform.Declare, in platform.Model, before ...resource.Node) *graph.Graph {
	t.Helper()
	g := &graph.Graph{}
	if err := g.Add(before...); err != nil {
		t.Fatal(err)
	}
	if err := of.Model(in, g); err != nil {
		t.Fatal(err)
	}
	return g
}

// Rendered returns the Terraform files of a graph, after validating them.
func Rendered(t testing.TB, of platform.Declare, in platform.Model, g *graph.Graph) map[string][]byte {
	t.Helper()
	doc, err := of.Terraform(in, g)
	if err != nil {
		t.Fatal(err)
	}
	files, err := terraform.Render(doc)
	if err != nil {
		t.Fatal(err)
	}
	schematest.Validate(t, files)
	return files
}
