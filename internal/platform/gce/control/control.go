// Package control is Google's cloud in its clusters: a machine is who has the virtual TPM of an
// instance of the cluster, and Compute says of which group it is, and whether it is gone.
// Names are published in Cloud DNS.
//
// It must not know what a machine or a node gets once it is known. It links no SDK.
package control

import (
	"context"
	"errors"
	"net/http"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/controller"
	"kops.local/kops/internal/platform/gce/gcecloud"
	"kops.local/kops/internal/platform/gce/gcerest"
	"kops.local/kops/internal/platform/gce/vtpm"
	"kops.local/kops/internal/platform/incluster"
)

// Platform is Google's cloud.
func Platform() incluster.Platform {
	return incluster.Platform{Name: "gce", Connect: connect, DNS: &incluster.DNS{Name: "google-clouddns", Open: openCloudDNS}}
}

func connect(_ context.Context, w incluster.World) (incluster.Control, error) {
	var own gcecloud.Controller
	if err := w.Config.Section(&own); err != nil {
		return incluster.Control{}, err
	}
	if own.ProjectID == "" || own.Region == "" {
		return incluster.Control{}, fault.Wrap(fault.Permanent, errors.New("the configuration of kops-controller: server.provider.gce names no projectID or no region"), "kops update cluster --yes writes it")
	}
	p := &project{api: client(w.Env, w.Now), name: own.ProjectID, region: own.Region, cluster: w.Config.ClusterName, now: w.Now, role: w.Stored.Role}
	known := &onInstances{Stored: w.Stored, project: p}
	var gone controller.Machines
	if self := w.Env("NODE_NAME"); self != "" { // as the add-on's manifest sets it
		gone = &roster{project: p, self: self}
	}
	return incluster.Control{
		Verifier: &vtpm.Verifier{Project: p.name, Region: p.region, Cluster: p.cluster, Skew: time.Duration(own.MaxTimeSkew) * time.Second, Instances: p, Now: w.Now},
		Groups:   known, Prefixes: known, Machines: gone, Period: rosterPeriod, Fleet: repairs{p},
	}, nil
}

// client asks Google's services as the machine's service account.
func client(env func(string) string, now func() time.Time) gcerest.Client {
	return gcerest.New(env, &http.Client{}, direct(), now)
}

// direct asks the metadata server, and no proxy.
func direct() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone() //nolint:errcheck // net/http says that it is one
	t.Proxy = nil
	return &http.Client{Transport: t}
}
