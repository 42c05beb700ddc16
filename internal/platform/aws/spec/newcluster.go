package spec

import (
	"kops.local/kops/api"
	"kops.local/kops/internal/spec/newcluster"
)

// newClusterRules returns the rules for describing a new cluster on AWS.
func newClusterRules() newcluster.Rules {
	return newcluster.Rules{
		Options: []newcluster.Option{
			{Name: "spotinst-product", Usage: "refused: Spot Ocean is not supported", Feature: "Spotinst"},
			{Name: "spotinst-orientation", Usage: "refused: Spot Ocean is not supported", Feature: "Spotinst"},
		},
		Describe: func(b *newcluster.Builder) {
			b.Spec.CloudProvider.AWS = &api.AWSSpec{
				SpotinstProduct: newcluster.NotEmpty(b.Own["spotinst-product"]), SpotinstOrientation: newcluster.NotEmpty(b.Own["spotinst-orientation"]),
			}
		},
		Finish: func(b *newcluster.Builder) {
			if d := b.Spec.ServiceAccountIssuerDiscovery; d != nil { // with published keys, service accounts have their own roles
				on := true
				d.EnableAWSOIDCProvider, b.Spec.IAM.UseServiceAccountExternalPermissions = true, &on
			}
		},
	}
}
