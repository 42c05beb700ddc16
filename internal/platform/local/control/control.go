// Package control is the local cloud as seen from inside its clusters: its registry folder
// lists the machines, with their groups and keys.
//
// It must not know how machines are created.
package control

import (
	"context"
	"errors"
	"os"
	"time"

	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/node/controller"
	"kops.local/kops/internal/platform/incluster"
	"kops.local/kops/internal/platform/local/localcloud"
)

// period is how often the folder of machines is read.
const period = 5 * time.Second

// Platform is the local cloud.
func Platform() incluster.Platform { return incluster.Platform{Name: "local", Connect: connect} }

func connect(_ context.Context, w incluster.World) (incluster.Control, error) {
	var own localcloud.Controller
	if err := w.Config.Section(&own); err != nil {
		return incluster.Control{}, err
	}
	if own.Machines == "" {
		return incluster.Control{}, errors.New("the configuration of kops-controller: server.provider.local.machines, the folder of machines, is not set")
	}
	self, err := w.Hostname()
	if err != nil {
		return incluster.Control{}, err
	}
	known := Registry{Folder: os.DirFS(own.Machines), Self: self, Stored: w.Stored}
	var replaces controller.Fleet
	if own.Requests != "" {
		replaces = fleet{known, own.Requests}
	}
	return incluster.Control{Verifier: bootstrap.NewMachineKeyVerifier(known, w.Now), Groups: known, Machines: known.roster(), Period: period, Fleet: replaces}, nil
}
