package complete

import (
	_ "embed"
	"maps"
	"slices"
	"strings"

	"kops.local/kops/internal/spec/diag"
)

// features has the switches of KOPS_FEATURE_FLAGS that have an effect, and those of kOps
// that have none.
//
//go:embed features.tsv
var features string

// featuresThatAre lists the switches of a sort, used or unused.
func featuresThatAre(sort string) []string {
	var names []string
	for line := range strings.Lines(features) {
		if name, found := strings.CutSuffix(line, "\t"+sort+"\n"); found {
			names = append(names, name)
		}
	}
	return names
}

// CheckFeature warns of a switch that has no effect or that nobody knows; nil is neither.
func CheckFeature(name string) *diag.Finding {
	used, unused := featuresThatAre("used"), featuresThatAre("unused")
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
