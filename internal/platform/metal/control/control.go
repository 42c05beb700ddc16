// Package control is bare metal as seen from inside its clusters: a machine is identified by the
// key that is registered in the cluster's store, and one that is no longer registered is gone.
//
// It must not know how a machine is enrolled.
package control

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/node/controller"
	"kops.local/kops/internal/platform/incluster"
)

// period is how often to check which machines are gone.
const period = 10 * time.Second

// Platform is bare metal.
func Platform() incluster.Platform { return incluster.Platform{Name: "metal", Connect: connect} }

func connect(_ context.Context, w incluster.World) (incluster.Control, error) {
	self, err := w.Hostname()
	if err != nil {
		return incluster.Control{}, err
	}
	known := registry{w.Stored, self}
	return incluster.Control{Verifier: bootstrap.NewMachineKeyVerifier(known, w.Now), Groups: known, InPlace: true, Machines: known, Period: period}, nil
}

// registry reads the machines of the cluster from their entries in its store, each
// under the name of the machine's node.
type registry struct {
	controller.Stored
	// self is the machine that this process runs on. A registry without it is not
	// trusted: it would remove every node.
	self string
}

var (
	_ controller.Groups   = registry{}
	_ controller.Machines = registry{}
)

// GroupOf returns the group in which the machine was enrolled.
func (r registry) GroupOf(ctx context.Context, node *corev1.Node) (string, error) {
	m, err := r.Machine(ctx, node.Name)
	return m.InstanceGroup, err
}

// ListTerminated returns the nodes that have no entry.
func (r registry) ListTerminated(ctx context.Context, nodes []*corev1.Node) ([]string, error) {
	var names []string
	for _, n := range nodes {
		names = append(names, n.Name)
	}
	_, gone, err := r.split(ctx, names)
	return gone, err
}

// ListExisting returns the names that have an entry.
func (r registry) ListExisting(ctx context.Context, nodes []string) ([]string, error) {
	alive, _, err := r.split(ctx, nodes)
	return alive, err
}

func (r registry) split(ctx context.Context, nodes []string) (alive, gone []string, err error) {
	if _, err := r.Machine(ctx, r.self); err != nil {
		return nil, nil, fmt.Errorf("the registry of machines lacks %s, where this runs, so it is ignored: %w", r.self, err)
	}
	for _, n := range nodes {
		switch _, err := r.Machine(ctx, n); {
		case fault.Is(err, fault.Gone):
			gone = append(gone, n)
		case err != nil:
			return nil, nil, err
		default:
			alive = append(alive, n)
		}
	}
	return alive, gone, nil
}
