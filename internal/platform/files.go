package platform

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"kops.local/kops/internal/engine/render/terraform"
	"kops.local/kops/internal/model/managedfile"
)

// filesVersion is the required version of the Terraform provider that writes the managed files, if it is
// not the platform's own.
const filesVersion = ">= 5.0.0"

// addFilesProvider adds the provider that writes the managed files of a Terraform document, if there are
// any. own has the attributes of the platform's own provider, extra those that the spec adds.
func (m Model) addFilesProvider(doc *terraform.Document, own, extra map[string]string) {
	full := ""
	for n := range doc.Graph.All() {
		if f, ok := n.Want.(*managedfile.File); ok && f.Provider != "" {
			full = f.Provider
			break
		}
	}
	name, _, ok := strings.Cut(full, ".")
	if !ok {
		return
	}
	p := m.FilesProvider(full, extra)
	needs, isOwn := doc.RequiredProviders[name]
	if isOwn {
		p.Attributes = maps.Clone(own)
		maps.Copy(p.Attributes, extra)
	} else {
		needs = terraform.RequiredProvider{Source: "hashicorp/" + name, Version: filesVersion}
	}
	needs.Aliases = []string{full}
	doc.RequiredProviders[name] = needs
	doc.Providers = append(doc.Providers, p)
}

// FilesProvider returns the provider that writes the managed files; full is its name with its alias. If the
// bucket is on a server that is not in the provider's cloud, the provider gets its address: otherwise, it
// would write to the bucket with the same name in that cloud. The server knows neither the cloud's accounts
// nor its regions.
func (m Model) FilesProvider(full string, extra map[string]string) terraform.Provider {
	p := terraform.Provider{Attributes: map[string]string{}}
	p.Name, p.Alias, _ = strings.Cut(full, ".")
	if region := m.filesRegion(); region != "" {
		p.Attributes["region"] = region
	}
	if url := m.FilesEndpoint; url != "" {
		for _, attribute := range []string{"s3_use_path_style", "skip_credentials_validation", "skip_region_validation", "skip_requesting_account_id"} {
			p.Attributes[attribute] = "true"
		}
		if !strings.Contains(url, "://") {
			url = "https://" + url
		}
		p.Endpoints = map[string]string{"s3": url}
	}
	maps.Copy(p.Attributes, extra)
	return p
}

// filesRegion returns the region of the managed files' bucket, if it is known or any cloud's facts contain
// it.
func (m Model) filesRegion() string {
	region := m.FilesRegion
	if m.Facts == nil {
		return region
	}
	for _, name := range slices.Sorted(maps.Keys(m.Facts.Clouds)) {
		region = cmp.Or(region, m.Facts.Clouds[name].Buckets[m.FilesBucket])
	}
	return region
}
