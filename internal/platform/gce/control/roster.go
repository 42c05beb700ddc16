package control

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/controller"
	"kops.local/kops/internal/platform/gce/gcerest"
)

// rosterPeriod is how often Compute Engine is queried for deleted machines, with one request per
// zone.
const rosterPeriod = 30 * time.Second

// roster reports which nodes have lost their instances. A managed instance group gives an
// instance's replacement the same name, and so possibly the name of an old node.
type roster struct {
	*project
	// self is the node on which this process runs; a list without its machine is not trusted.
	self string
}

var _ controller.Machines = (*roster)(nil)

// ListTerminated returns the nodes whose instances Compute Engine does not know, and those older
// than the instance that has their name: they belonged to its predecessor. A control-plane node,
// which joins without kops-controller, may belong to the new instance as soon as it is ready.
func (r *roster) ListTerminated(ctx context.Context, nodes []*corev1.Node) ([]string, error) {
	there, err := r.byName(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, n := range nodes {
		i, ok := there[n.Name]
		switch {
		case ok && (!n.CreationTimestamp.Time.Before(i.Created) || isControlPlane(n) && isReady(n)):
			continue
		case !ok:
			gone, err := r.isUnknown(ctx, n)
			if err != nil {
				return nil, err
			}
			if !gone {
				continue
			}
		}
		out = append(out, n.Name)
	}
	return out, nil
}

// isUnknown reports whether Compute Engine does not know a node's instance, whatever its labels. It
// returns false for nodes of other projects or regions, and for nodes that the cloud controller has
// not found yet.
func (r *roster) isUnknown(ctx context.Context, n *corev1.Node) (bool, error) {
	zone, name, _ := strings.Cut(strings.TrimPrefix(n.Spec.ProviderID, providerPrefix+r.name+"/"), "/")
	if name != n.Name || gcerest.RegionOf(zone) != r.region {
		return false, nil
	}
	_, err := r.get(ctx, zone, name)
	if fault.Is(err, fault.Gone) {
		return true, nil
	}
	return false, err
}

// ListExisting returns the names for which the cluster has an instance.
func (r *roster) ListExisting(ctx context.Context, names []string) ([]string, error) {
	there, err := r.byName(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { _, ok := there[n]; return !ok }), nil
}

// byName returns the cluster's instances by name.
func (r *roster) byName(ctx context.Context) (map[string]gcerest.Instance, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all, err := r.instances(ctx, recent)
	if err != nil {
		return nil, fmt.Errorf("find deleted machines in Compute Engine: %w", err)
	}
	out, own := map[string]gcerest.Instance{}, false
	for _, i := range all {
		out[i.Name] = i
		own = own || i.Name == r.self && i.Status == "RUNNING"
	}
	if !own {
		return nil, fmt.Errorf("Compute Engine's list of machines lacks %s, where this runs, so the list is ignored", r.self)
	}
	return out, nil
}

func isControlPlane(n *corev1.Node) bool {
	_, is := n.Labels["node-role.kubernetes.io/control-plane"]
	return is
}

func isReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
