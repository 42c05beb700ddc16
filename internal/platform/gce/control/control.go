// Package control is Google Cloud in its clusters: a machine proves with its virtual TPM which of
// the cluster's instances it is, and Compute Engine tells its group, and whether it is gone. Names
// are published in Cloud DNS.
//
// It must not know what an identified machine or node receives. It links no SDK.
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

// Platform returns Google Cloud.
func Platform() incluster.Platform {
	return incluster.Platform{Name: "gce", Connect: connect, DNS: &incluster.DNS{Name: "google-clouddns", Open: openCloudDNS}}
}

func connect(_ context.Context, w incluster.World) (incluster.Control, error) {
	var own gcecloud.Controller
	if err := w.Config.Section(&own); err != nil {
		return incluster.Control{}, err
	}
	if own.ProjectID == "" || own.Region == "" {
		return incluster.Control{}, fault.Wrap(fault.Permanent, errors.New("the configuration of kops-controller has no projectID or no region in server.provider.gce"), "run kops update cluster --yes to write it")
	}
	p := (&project{api: newClient(w.Env, w.Now), name: own.ProjectID, region: own.Region, cluster: w.Config.ClusterName, now: w.Now, role: w.Stored.Role}).withList()
	known := newGroups(w.Stored, p)
	var gone controller.Machines
	if self := w.Env("NODE_NAME"); self != "" { // set by the add-on's manifest
		gone = newRoster(p, self)
	}
	return incluster.Control{
		Verifier: &vtpm.Verifier{Project: p.name, Region: p.region, Cluster: p.cluster, Skew: time.Duration(own.MaxTimeSkew) * time.Second, Instances: p, Now: w.Now},
		Groups:   known, Prefixes: known, Machines: gone, Period: rosterPeriod, Fleet: instanceFleet{p},
	}, nil
}

// newClient returns a client for Google's services that uses the machine's service account.
func newClient(env func(string) string, now func() time.Time) gcerest.Client {
	return gcerest.New(env, &http.Client{}, newDirectClient(), now)
}

// newDirectClient returns a client for the metadata server, which uses no proxy.
func newDirectClient() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone() //nolint:errcheck // net/http says that it is one
	t.Proxy = nil
	return &http.Client{Transport: t}
}
