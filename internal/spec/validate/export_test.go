package validate

import "slices"

// RuleNames returns the names of all rules for clusters and groups, including the platforms'
// rules.
func RuleNames(platforms ...Platform) []string {
	var names []string
	for _, p := range append(platforms, Platform{}) {
		for _, r := range clusterRules(p, nil) {
			names = append(names, r.Name)
		}
		for _, r := range groupRules(p) {
			names = append(names, r.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
