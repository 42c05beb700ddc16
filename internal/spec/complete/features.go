package complete

import (
	"maps"
	"strings"
)

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
