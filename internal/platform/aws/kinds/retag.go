package kinds

import (
	"maps"
	"slices"
)

// tagChange returns the changes that turn the tags have into want, without changing tags set by
// others. AWS' own tags are not in have.
func tagChange(have, want map[string]string) (set map[string]string, drop []string) {
	set = map[string]string{}
	for k, v := range want {
		if old, ok := have[k]; !ok || old != v {
			set[k] = v
		}
	}
	drop = difference(slices.Collect(maps.Keys(have)), slices.Collect(maps.Keys(want)))
	return set, slices.DeleteFunc(drop, Tags(want).Foreign)
}

// retag turns the tags have into want, with one call that sets tags and
// one that removes tags, if needed.
func retag(have, want map[string]string, set func(map[string]string) error, drop func([]string) error) error {
	changed, gone := tagChange(have, want)
	if len(changed) > 0 {
		if err := set(changed); err != nil {
			return err
		}
	}
	if len(gone) == 0 {
		return nil
	}
	return drop(gone)
}

// listChange returns what to add to have and what to remove from it to get want, sorted.
func listChange(have, want []string) (add, drop []string) {
	return difference(want, have), difference(have, want)
}

// difference returns the texts that are not in others, sorted and without duplicates.
func difference(texts, others []string) []string {
	return slices.DeleteFunc(distinct(texts), func(s string) bool { return slices.Contains(others, s) })
}

// tagsOf returns observed tags, given as keys and values, without AWS' own.
func tagsOf[T any](tags []T, pair func(T) (key, value *string)) map[string]string {
	out := map[string]string{}
	for _, t := range tags {
		if k, v := pair(t); k != nil && !isReserved(*k) {
			out[*k] = deref(v)
		}
	}
	return out
}

// pairs returns tags or attributes in a service's type, sorted by key.
func pairs[T any](tags map[string]string, tag func(key, value *string) T) []T {
	keys := make([]string, 0, len(tags))
	for k := range tags {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	out := make([]T, len(keys))
	for i, k := range keys {
		v := tags[k]
		out[i] = tag(&keys[i], &v)
	}
	return out
}
