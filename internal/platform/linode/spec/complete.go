package spec

import (
	"kops.local/kops/internal/spec/complete"
)

// completion returns the rules by which a cluster on Linode is completed.
func completion() complete.Rules {
	return complete.Rules{After: []complete.Rule{{Name: "linode-cloud-controller", Why: "the version that this kops was tested with", Do: func(p *complete.Pass) {
		p.CloudController("linode/linode-cloud-controller-manager:v0.9.5")
	}}}}
}
