package control

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/controller"
	"kops.local/kops/internal/platform/gce/gcerest"
	"kops.local/kops/internal/platform/incluster/roster"
	"kops.local/kops/internal/platform/rest"
)

// instanceFleet replaces the cluster's instances through their managed instance groups.
type instanceFleet struct{ *project }

var _ controller.Fleet = instanceFleet{}

// List returns the instances that are running or starting, each named ZONE/NAME/ID.
func (f instanceFleet) List(ctx context.Context) ([]controller.FleetMachine, error) {
	all, err := f.list.Machines(ctx)
	return roster.Fleet(all), err
}

// Serving returns the instances that are in a managed instance group which is not about to delete
// or replace them.
func (f instanceFleet) Serving(ctx context.Context, machines []controller.FleetMachine) ([]controller.FleetMachine, error) {
	all, err := f.list.All(ctx, roster.Remembered)
	if err != nil {
		return nil, err
	}
	makers := map[string]string{}
	for _, m := range all {
		makers[m.Own.ID] = f.managerPath(m.Own)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []controller.FleetMachine
	for _, m := range machines {
		id := gcerest.BaseName(m.Name)
		is, err := f.findMember(ctx, makers[id], id, roster.Fresh)
		switch {
		case fault.Is(err, fault.Gone):
		case err != nil:
			return nil, err
		case slices.Contains([]string{"", "NONE", "CREATING", "CREATING_WITHOUT_RETRIES", "REFRESHING", "VERIFYING"}, is.Action):
			out = append(out, m)
		}
	}
	return out, nil
}

// Replace makes the managed instance group recreate the instance, with its current template and the
// same name.
func (f instanceFleet) Replace(ctx context.Context, m controller.FleetMachine) error {
	parts := strings.Split(m.Name, "/")
	if len(parts) != 3 {
		return fault.New(fault.Permanent, "%q is not an instance", m.Name)
	}
	zone, name, id := parts[0], parts[1], parts[2]
	i, err := f.get(ctx, zone, name)
	if err != nil {
		return err
	}
	maker := f.managerPath(i)
	switch {
	case i.ID != id:
		return fault.New(fault.Gone, "the instance %s was replaced by another with its name", name)
	case maker == "":
		return fault.New(fault.Permanent, "the instance %s was not created by a managed instance group", name)
	}
	path := gcerest.ZonePath(f.name, zone)
	err = f.api.DoAndWait(ctx, path, rest.Request{Method: http.MethodPost, Path: strings.TrimPrefix(maker, path+"/") + "/recreateInstances",
		Body: map[string][]string{"instances": {"zones/" + zone + "/instances/" + name}}})
	if err != nil {
		return fmt.Errorf("recreate the instance %s: %w", name, err)
	}
	return nil
}
