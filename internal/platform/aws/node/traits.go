package node

import (
	"fmt"
	"strings"

	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/platform/onmachine"
)

// traits returns the traits of AWS instances.
func traits() onmachine.Traits {
	return onmachine.Traits{
		TimeServers:      "169.254.169.123", // Amazon Time Sync Service
		KernelParameters: []string{"net.ipv4.neigh.default.gc_thresh1=0"},
		Registry: onmachine.CredentialProvider{Name: "ecr-credential-provider", Cache: "12h0m0s",
			Images: []string{"*.dkr.ecr.*.amazonaws.com", "*.dkr.ecr.*.amazonaws.com.cn", "*.dkr.ecr-fips.*.amazonaws.com", "*.dkr.ecr.us-iso-east-1.c2s.ic.gov"}},
		CloudConfig:      cloudConfig,
		VerifiedKubelets: true,
	}
}

// cloudConfig returns the configuration of AWS' cloud controller.
func cloudConfig(c *nodeconfig.Config) string {
	lines := []string{"[global]"}
	if c.DisableSecurityGroupIngress != nil {
		lines = append(lines, fmt.Sprintf("DisableSecurityGroupIngress = %t", *c.DisableSecurityGroupIngress))
	}
	if c.ELBSecurityGroup != nil {
		lines = append(lines, "ElbSecurityGroup = "+*c.ELBSecurityGroup)
	}
	if c.NLBSecurityGroupMode != nil {
		lines = append(lines, "NLBSecurityGroupMode = "+*c.NLBSecurityGroupMode)
	}
	for _, f := range c.NodeIPFamilies {
		lines = append(lines, "NodeIPFamilies = "+f)
	}
	return strings.Join(lines, "\n") + "\n"
}
