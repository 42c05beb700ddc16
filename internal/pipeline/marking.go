package pipeline

import (
	"context"
	"fmt"
	"reflect"

	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/model/addons"
)

// marking are add-ons that mark nodes for replacement once they are applied.
type marking []api.Addon

// of returns the names of the add-ons that mark the nodes of a group.
func (m marking) of(g *api.InstanceGroup) (names []string) {
	for _, a := range m {
		switch {
		case g == nil || g.IsBastion():
		case a.NeedsRollingUpdate == labels.RollAll,
			a.NeedsRollingUpdate == labels.RollControlPlane && g.IsControlPlane(),
			a.NeedsRollingUpdate == labels.RollWorkers && g.Spec.Role == api.RoleNode:
			names = append(names, a.Name)
		}
	}
	return names
}

// markingAddons returns the add-ons that need a rolling update, and whose existing objects the plan
// changes. wanted are the files of the cluster's folder by their keys, and was those that are replaced.
func (p *Planned) markingAddons(ctx context.Context, wanted, was map[string][]byte) (out marking, err error) {
	var channel api.Addons
	if err := yaml.Unmarshal(wanted[layout.Channel], &channel); err != nil {
		return nil, fmt.Errorf("read the channel of add-ons: %w", err)
	}
	for _, a := range channel.Spec.Addons {
		key := layout.Addons + a.Manifest
		before, changed := was[key]
		if a.NeedsRollingUpdate == "" || !changed || wanted[key] == nil {
			continue
		}
		if before == nil {
			before, err = p.readApplied(ctx, key)
			if fault.Is(err, fault.Gone) {
				continue // the add-on is new
			}
			if err != nil {
				return nil, err
			}
		}
		if same, err := sameForNodes(before, wanted[key]); err != nil {
			return nil, fmt.Errorf("compare the manifests of the add-on %s: %w", a.Name, err)
		} else if !same {
			out = append(out, a)
		}
	}
	return out, nil
}

// sameForNodes reports whether two manifests have the same objects apart from what is re-read periodically.
func sameForNodes(a, b []byte) (bool, error) {
	var both [2][]map[string]any
	for i, text := range [][]byte{a, b} {
		objects, err := addons.Decode(text)
		if err != nil {
			return false, err
		}
		for _, o := range objects {
			both[i] = append(both[i], labels.WithoutLiveKeys(o))
		}
	}
	return reflect.DeepEqual(both[0], both[1]), nil
}
