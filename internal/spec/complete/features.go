package complete

import (
	"maps"
	"slices"
	"strings"

	"kops.local/kops/internal/spec/diag"
)

// Switches of KOPS_FEATURE_FLAGS that do something here, and those of kOps that do not.
const (
	usedFeatures = "APIServerNodes AWSSingleNodesInstanceGroup Azure AzureTerraform ClusterAddons DOTerraform DiscoveryService EnableSeparateConfigBase EtcdEventsHTTP " +
		"ExperimentalClusterDNS ExperimentalRoles Linode Metal Scaleway Spotinst"
	unusedFeatures = "CacheNodeidentityInfo ClusterAPI GoogleCloudBucketAcl ImageDigest SELinuxMount SpotinstController SpotinstHybrid " +
		"SpotinstOcean SpotinstOceanTemplate TerraformManagedFiles UseAddonOperators VPCSkipEnableDNSSupport"
)

// CheckFeature warns of a switch that has no effect or that nobody knows; nil is neither.
func CheckFeature(name string) *diag.Finding {
	used, unused := strings.Fields(usedFeatures), strings.Fields(unusedFeatures)
	f := &diag.Finding{Path: "KOPS_FEATURE_FLAGS", Value: name, Rule: "feature-flag", Message: "is not a feature flag", Remedy: "remove it", Warning: true}
	switch {
	case slices.Contains(used, name):
		return nil
	case slices.Contains(unused, name):
		f.Message = "is a feature flag of kOps that has no effect here"
	default:
		if near := diag.Nearest(name, used); near != "" {
			f.Remedy = "did you mean " + near + "?"
		}
	}
	return f
}

// Features are the switches of the environment variable KOPS_FEATURE_FLAGS, by name.
type Features map[string]bool

// defaultFeatures returns the switches that are on when nothing is said; all others are off.
func defaultFeatures() Features {
	return Features{"TerraformManagedFiles": true, "ImageDigest": true}
}

// ParseFeatures reads a comma-separated list over the defaults: "X" and "+X" turn a switch on, "-X" off.
func ParseFeatures(list string) Features {
	f := defaultFeatures()
	maps.Copy(f, ParseGates(list))
	return f
}

// ParseGates reads a comma-separated list of switches: "X" and "+X" are on, "-X" is off.
func ParseGates(list string) map[string]bool {
	gates := map[string]bool{}
	for item := range strings.SplitSeq(list, ",") {
		item = strings.TrimSpace(item)
		name := strings.TrimLeft(item, "+-")
		if name != "" {
			gates[name] = !strings.HasPrefix(item, "-")
		}
	}
	return gates
}
