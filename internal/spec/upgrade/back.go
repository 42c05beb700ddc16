package upgrade

import (
	"kops.local/kops/api"
	"kops.local/kops/internal/spec/difference"
)

// Differences lists the fields in which objects differ, by their paths in v1alpha2. An object that
// is only in one of the lists differs as a whole.
func Differences(was, now []api.Object) ([]Change, error) {
	all, err := difference.Between(was, now)
	var out []Change
	for _, f := range all {
		out = append(out, Change{Item: f.Object, Property: f.Path, Old: f.Old, New: f.New})
	}
	return out, err
}
