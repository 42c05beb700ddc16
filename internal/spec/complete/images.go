package complete

import (
	"strings"

	"kops.local/kops/internal/model/assets"
	"kops.local/kops/internal/spec/versions"
)

// componentImage is the image of one of Kubernetes' programs at the cluster's version.
func (p *Pass) componentImage(name string) string {
	tag := ":v"
	if versions.IsBaseURL(p.Spec.KubernetesVersion) {
		tag = "-amd64:v"
	}
	// Builds have an underscore where their versions have a plus, which no tag may have.
	return p.mirrored("registry.k8s.io/" + name + tag + strings.ReplaceAll(p.Version.String(), "+", "_"))
}

// mirrored is what a public image is called where the cluster pulls it.
func (p *Pass) mirrored(image string) string { return assets.MirrorsOf(p.Spec.Assets).Image(image) }
