package spec

import (
	"kops.local/kops/api"
	"kops.local/kops/internal/spec/newcluster"
)

// description is how a new cluster on AWS is described.
func description() newcluster.Rules {
	return newcluster.Rules{
		Options: []newcluster.Option{
			{Name: "spotinst-product", Usage: "Spot: product description", Feature: "Spotinst"},
			{Name: "spotinst-orientation", Usage: "Spot: availability, balance or cost", Feature: "Spotinst"},
		},
		Describe: func(b *newcluster.Builder) {
			b.Spec.CloudProvider.AWS = &api.AWSSpec{
				SpotinstProduct: newcluster.NotEmpty(b.Own["spotinst-product"]), SpotinstOrientation: newcluster.NotEmpty(b.Own["spotinst-orientation"]),
			}
		},
		Finish: func(b *newcluster.Builder) {
			if d := b.Spec.ServiceAccountIssuerDiscovery; d != nil { // with published keys, service accounts have roles of their own
				on := true
				d.EnableAWSOIDCProvider, b.Spec.IAM.UseServiceAccountExternalPermissions = true, &on
			}
		},
	}
}
