package node

import (
	"fmt"
	"strings"

	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/platform/onmachine"
)

// traits are what is specific to instances.
func traits() onmachine.Traits {
	return onmachine.Traits{
		TimeServers: "time.google.com", BalancerUnnamed: true,
		Registry: onmachine.CredentialProvider{Name: "auth-provider-gcp", Cache: "1m0s",
			Images: []string{"gcr.io", "*.gcr.io", "container.cloud.google.com", "*.pkg.dev"}},
		CloudConfig:      cloudConfig,
		VerifiedKubelets: true,
	}
}

// cloudConfig returns the configuration of the cloud controller.
func cloudConfig(c *nodeconfig.Config) string {
	lines := []string{"[global]"}
	if c.NodeTags != nil {
		lines = append(lines, "node-tags = "+*c.NodeTags)
	}
	if c.NodeInstancePrefix != nil {
		lines = append(lines, "node-instance-prefix = "+*c.NodeInstancePrefix)
	}
	if c.Multizone != nil {
		lines = append(lines, fmt.Sprintf("multizone = %t", *c.Multizone))
	}
	return strings.Join(lines, "\n") + "\n"
}
