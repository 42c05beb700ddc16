package model

import (
	"fmt"
	"maps"
	"strings"

	"kops.local/kops/api"
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
	extra := api.TerraformSpec{}
	if t := m.spec.Target; t != nil {
		extra = valueOr(t.Terraform, extra)
	}
	doc.Providers = []terraform.Provider{
		provider("", m.facts.Region, extra.ProviderExtraConfig),
		m.filesProvider(extra.FilesProviderExtraConfig),
	}
	return doc, nil
}

// filesRegion returns the region of the managed files' bucket.
func (m *model) filesRegion() string {
	for _, region := range []string{m.FilesRegion, m.facts.Buckets[m.FilesBucket]} {
		if region != "" {
			return region
		}
	}
	return m.facts.Region
}

// filesProvider returns the provider that writes the managed files. If their bucket is on an S3
// server other than Amazon's, the provider gets its address: otherwise it would write to Amazon's
// bucket with the same name. The server knows neither Amazon's accounts nor its regions.
func (m *model) filesProvider(extra map[string]string) terraform.Provider {
	own := map[string]string{}
	if m.FilesEndpoint != "" {
		own = map[string]string{"s3_use_path_style": "true", "skip_credentials_validation": "true", "skip_region_validation": "true", "skip_requesting_account_id": "true"}
	}
	maps.Copy(own, extra)
	p := provider("files", m.filesRegion(), own)
	if url := m.FilesEndpoint; url != "" {
		if !strings.Contains(url, "://") {
			url = "https://" + url
		}
		p.Endpoints = map[string]string{"s3": url}
	}
	return p
}

func provider(alias, region string, extra map[string]string) terraform.Provider {
	p := terraform.Provider{Name: "aws", Alias: alias, Attributes: map[string]string{"region": region}}
	maps.Copy(p.Attributes, extra)
	return p
}
