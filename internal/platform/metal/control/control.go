// Package control is bare metal as seen from inside its clusters: a machine is identified by the
// key that is registered in the cluster's store, and one that is no longer registered is gone.
//
// It must not know how a machine is enrolled.
package control

import (
	"context"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/node/controller"
	"kops.local/kops/internal/platform/incluster"
	"kops.local/kops/internal/platform/incluster/roster"
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
	return incluster.Control{Verifier: bootstrap.NewMachineKeyVerifier(w.Stored, w.Now), Groups: w.Stored, InPlace: true, Machines: newRoster(w.Stored, self), Period: period}, nil
}

// newRoster reports the nodes whose machines have no entry in the cluster's store, each under the name
// of the machine's node. It runs on the node self.
func newRoster(known controller.Stored, self string) *roster.Roster {
	return &roster.Roster{Source: "the registry of machines", Self: self, List: func(ctx context.Context, nodes []string) ([]roster.Machine, error) {
		var out []roster.Machine
		for _, n := range nodes {
			switch _, err := known.Machine(ctx, n); {
			case fault.Is(err, fault.Gone):
			case err != nil:
				return nil, err
			default:
				out = append(out, roster.Machine{ID: n, Node: n, State: roster.Running})
			}
		}
		return out, nil
	}}
}
