package complete

import (
	"strings"

	"kops.local/kops/internal/assets"
	"kops.local/kops/internal/channel"
)

// componentImage is the image of one of Kubernetes' programs at the cluster's version.
func (p *pass) componentImage(name string) string {
	v := p.spec.KubernetesVersion
	tag := ":v" + strings.TrimPrefix(v, "v")
	if channel.IsBaseURL(v) {
		tag = "-amd64:v" + strings.ReplaceAll(p.version.String(), "+", "_")
	}
	return p.mirrored("registry.k8s.io/" + name + tag)
}

// mirrored is what a public image is called where the cluster pulls it.
func (p *pass) mirrored(image string) string { return assets.MirrorsOf(p.spec.Assets).Image(image) }
