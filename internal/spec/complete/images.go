package complete

import (
	"strings"

	"kops.local/kops/internal/model/assets"
	"kops.local/kops/internal/spec/versions"
)

// componentImage returns the image of one of Kubernetes' programs at the cluster's version.
func (p *Pass) componentImage(name string) string {
	tag := ":v"
	if versions.IsBaseURL(p.Spec.KubernetesVersion) {
		tag = "-amd64:v"
	}
	// Image tags must not contain a plus; builds use an underscore instead.
	return p.mirrored("registry.k8s.io/" + name + tag + strings.ReplaceAll(p.Version.String(), "+", "_"))
}

// mirrored returns the name under which the cluster pulls a public image.
func (p *Pass) mirrored(image string) string { return assets.MirrorsOf(p.Spec.Assets).Image(image) }
