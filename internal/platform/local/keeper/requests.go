package keeper

import (
	"fmt"
	"slices"
	"time"

	"kops.local/kops/internal/platform/local/machine"
	"kops.local/kops/internal/platform/local/site"
)

// takeReplacements returns the running machines of groups that the cluster itself wants replaced. Each
// request is consumed; one for a machine that does not exist, or is too new, is dropped.
func (k *keeper) takeReplacements(machines []machine.Machine, now time.Time) ([]machine.Machine, error) {
	names, err := site.List(k.host.Path(site.Requests))
	if err != nil {
		return nil, fmt.Errorf("read the requests to replace machines: %w", err)
	}
	var out []machine.Machine
	for _, name := range names {
		at := slices.IndexFunc(machines, func(m machine.Machine) bool { return m.Name == name })
		if at >= 0 && machines[at].Group != "" && machines[at].Running && now.Sub(machines[at].Created) > youngAge {
			k.log.Info("the cluster wants a machine replaced", "machine", name)
			out = append(out, machines[at])
		}
		if err := Remove(k.host.Path(site.Requests, name)); err != nil {
			return nil, err
		}
	}
	return out, nil
}
