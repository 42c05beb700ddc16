package spec

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/fill"
)

// completion returns the rules by which a cluster on OpenStack is completed.
func completion() complete.Rules {
	return complete.Rules{
		Before: []complete.Rule{{Name: "openstack-storage-classes", Why: "the settings of the block storage", Do: setStorageClasses}},
		After:  []complete.Rule{{Name: "openstack-cloud-controller", Why: "how kops runs the controllers of OpenStack", Do: setController}},
	}
}

func setStorageClasses(p *complete.Pass) {
	if b := p.Spec.CloudProvider.Openstack.BlockStorage; b != nil && b.CreateStorageClass != nil {
		fill.Ptr(&fill.Ensure(&p.Spec.CloudConfig).ManageStorageClasses, *b.CreateStorageClass)
	}
}

func setController(p *complete.Pass) {
	fill.Ptr(&fill.Ensure(&p.Spec.CloudProvider.Openstack.BlockStorage).CreateStorageClass, true)
	fill.Ptr(&fill.Ensure(&p.Spec.CloudControllerManager).NodeStatusUpdateFrequency, metav1.Duration{Duration: time.Hour})
}
