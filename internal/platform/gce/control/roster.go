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

// rosterPeriod is how often Compute is asked which machines are gone: one question for each zone.
const rosterPeriod = 30 * time.Second

// roster reports which nodes have lost their instances. A managed instance group gives the
// replacement of an instance the same name, and so possibly the name of an old node.
type roster struct {
	*project
	// self is the node that this process runs on, without whose machine a list is not trusted.
	self string
}

var _ controller.Machines = (*roster)(nil)

// Gone returns the nodes whose instances Compute does not know, and those that are older than the
// instance that has their name: they were its predecessor's. A control plane's node, which joins
// without being let in, may belong to the new instance again, as soon as it is ready.
func (r *roster) Gone(ctx context.Context, nodes []*corev1.Node) ([]string, error) {
	there, err := r.there(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, n := range nodes {
		i, ok := there[n.Name]
		switch {
		case ok && (!n.CreationTimestamp.Time.Before(i.Created) || controlPlane(n) && ready(n)):
			continue
		case !ok:
			gone, err := r.unknown(ctx, n)
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

// unknown reports whether Compute does not know the instance of a node, with any labels. Nodes of
// another project are left alone, and nodes that the cloud's controller has not found yet.
func (r *roster) unknown(ctx context.Context, n *corev1.Node) (bool, error) {
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

// Alive returns the names that an instance of the cluster has.
func (r *roster) Alive(ctx context.Context, names []string) ([]string, error) {
	there, err := r.there(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { _, ok := there[n]; return !ok }), nil
}

// there are the instances of the cluster by their names.
func (r *roster) there(ctx context.Context) (map[string]gcerest.Instance, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all, err := r.instances(ctx, recent)
	if err != nil {
		return nil, fmt.Errorf("ask Compute which machines are gone: %w", err)
	}
	out, own := map[string]gcerest.Instance{}, false
	for _, i := range all {
		out[i.Name] = i
		own = own || i.Name == r.self && i.Status == "RUNNING"
	}
	if !own {
		return nil, fmt.Errorf("what Compute lists lacks %s, on which this runs, and so is not believed", r.self)
	}
	return out, nil
}

func controlPlane(n *corev1.Node) bool {
	_, is := n.Labels["node-role.kubernetes.io/control-plane"]
	return is
}

func ready(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
