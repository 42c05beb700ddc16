package complete

import "slices"

func isTrue(p *bool) bool { return p != nil && *p }

func ptr[T any](v T) *T { return &v }

// union joins lists, sorted and without duplicates; nil if the result is empty.
func union(lists ...[]string) []string {
	all := slices.Concat(lists...)
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) == 0 {
		return nil
	}
	return all
}
