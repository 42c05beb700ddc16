package validate

import "slices"

// RuleNames are the names of all rules for clusters and groups.
func RuleNames() []string {
	var names []string
	for _, r := range clusterRules() {
		names = append(names, r.name)
	}
	for _, r := range groupRules() {
		names = append(names, r.name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
