package complete

import (
	_ "embed"
	"maps"
	"strings"

	"kops.local/kops/internal/spec/diag"
)

// features lists the feature flags of KOPS_FEATURE_FLAGS, one per line: the name and, for kOps'
// flags that have no effect, the reason.
//
//go:embed features.tsv
var features string

// CheckFeature returns a warning about a feature flag that has no effect or is unknown, and nil for
// others.
func CheckFeature(name string) *diag.Finding {
	f := &diag.Finding{Path: "KOPS_FEATURE_FLAGS", Value: name, Rule: "feature-flag", Message: "is not a feature flag", Remedy: "remove it", Warning: true}
	var used []string
	for line := range strings.Lines(features) {
		known, reason, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		switch {
		case reason == "":
			used = append(used, known)
			if known == name {
				return nil
			}
		case known == name:
			f.Message = "is a feature flag of kOps that has no effect here"
			f.Remedy = "remove it: " + reason
			return f
		}
	}
	if near := diag.Nearest(name, used); near != "" {
		f.Remedy = "did you mean " + near + "?"
	}
	return f
}

// Features are the feature flags in the environment variable KOPS_FEATURE_FLAGS, by name.
type Features map[string]bool

// defaultFeatures returns the feature flags that are on by default; all others are off.
func defaultFeatures() Features {
	return Features{"TerraformManagedFiles": true, "ImageDigest": true}
}

// ParseFeatures applies a comma-separated list to the defaults: "X" and "+X" turn a feature flag
// on, "-X" off.
func ParseFeatures(list string) Features {
	f := defaultFeatures()
	maps.Copy(f, ParseGates(list))
	return f
}

// ParseGates reads a comma-separated list of feature flags: "X" and "+X" are on, "-X" is off.
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
