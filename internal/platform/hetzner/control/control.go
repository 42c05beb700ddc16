// Package control is Hetzner Cloud in its clusters: kops-controller calls the server that a machine
// claims to be, at the address that the API gives, and servers' labels tell the groups of nodes. Nodes of
// servers that are gone are removed.
//
// It must not know what an identified machine or node receives. It links no SDK.
package control

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/platform/hetzner/hetznerapi"
	"kops.local/kops/internal/platform/hetzner/hetznercloud"
	"kops.local/kops/internal/platform/incluster"
	"kops.local/kops/internal/platform/incluster/roster"
)

const (
	// period is how often deleted servers are looked for, with one request for 50 servers.
	period = 30 * time.Second
	// Claims are answered from a list of servers, which is loaded again after roster.Fresh at most: a
	// project may send 3600 requests in an hour. So their number is only limited to bound the calls.
	claimsPerSecond, claimsAtOnce = 10, 100
)

// Platform returns Hetzner Cloud. It has no Fleet: no group replaces a server that repair would delete, but
// an update of the cluster does.
func Platform() incluster.Platform { return incluster.Platform{Name: "hetzner", Connect: connect} }

func connect(_ context.Context, w incluster.World) (incluster.Control, error) {
	return connectWith(w, &http.Client{})
}

func connectWith(w incluster.World, client *http.Client) (incluster.Control, error) {
	token := w.Env(hetznercloud.TokenVariable)
	if token == "" {
		return incluster.Control{}, fault.Wrap(fault.Permanent, errors.New(hetznercloud.TokenVariable+" is not set"), "run kops update cluster --yes: the manifest of kops-controller sets it from the Secret kube-system/hcloud")
	}
	p := &project{cluster: w.Config.ClusterName,
		api: hetznerapi.New(hetznerapi.Config{Endpoint: w.Env(hetznercloud.EndpointVariable), Token: token, HTTP: client, UserAgent: "kops-controller", Repeat: true})}
	p.list = &roster.List[hetznerapi.Server]{Load: p.servers, Now: w.Now}
	c := incluster.Control{
		Verifier: &bootstrap.Callback{Scheme: hetznercloud.ClaimScheme, Cluster: p.cluster, Find: p.list.Call, PerSecond: claimsPerSecond, AtOnce: claimsAtOnce,
			Certificate: w.CallerCertificate, Now: w.Now},
		Groups: &roster.Groups[hetznerapi.Server]{Stored: w.Stored, List: p.list}, Period: period,
	}
	if self := w.Env("NODE_NAME"); self != "" { // set by the add-on's manifest
		c.Machines = &roster.Roster{Source: "Hetzner's list of servers", Self: self, IsUnknown: p.isUnknown,
			List: func(ctx context.Context, _ []string) ([]roster.Machine, error) { return p.list.Machines(ctx) }}
	}
	return c, nil
}

// project is the project of the cluster, which others may share.
type project struct {
	api     *hetznerapi.Client
	cluster string
	list    *roster.List[hetznerapi.Server]
}

// servers lists the cluster's servers.
func (p *project) servers(ctx context.Context) ([]roster.Listed[hetznerapi.Server], error) {
	all, err := hetznerapi.List[hetznerapi.Server](ctx, p.api, "servers", hetznerapi.Labelled(hetznercloud.ClusterLabel+"="+p.cluster))
	var out []roster.Listed[hetznerapi.Server]
	for _, s := range all {
		out = append(out, roster.Listed[hetznerapi.Server]{Machine: machineOf(s), Own: s})
	}
	return out, err
}

func machineOf(s hetznerapi.Server) roster.Machine {
	id := strconv.FormatInt(s.ID, 10)
	m := roster.Machine{ID: id, Node: s.Name, Group: hetznercloud.GroupOf(s.Labels), State: roster.Stopped, Status: s.Status, Place: s.Location.Name, Created: s.Created,
		ProviderID: hetznercloud.ProviderPrefix + id, Cluster: s.Labels[hetznercloud.ClusterLabel], Addresses: s.PrivateAddresses(), Names: []string{s.Name}}
	if public := s.PublicNet.IPv4; public != nil {
		m.Names = append(m.Names, public.IP)
	}
	switch s.Status {
	case "initializing", "starting":
		m.State = roster.Starting
	case "running":
		m.State = roster.Running
	case "deleting":
		m.State = roster.Ended
	}
	return m
}

// isUnknown reports whether a node's server, which the list lacks, does not exist, whatever its labels.
func (p *project) isUnknown(ctx context.Context, n *corev1.Node) (bool, error) {
	text, isServer := strings.CutPrefix(n.Spec.ProviderID, hetznercloud.ProviderPrefix)
	id, err := strconv.ParseInt(text, 10, 64)
	if !isServer || err != nil { // not a server of Hetzner's
		return false, nil
	}
	_, err = hetznerapi.Get[hetznerapi.Server](ctx, p.api, hetznerapi.Path("servers", id))
	if err == nil || fault.Is(err, fault.Gone) {
		return err != nil, nil
	}
	return false, fmt.Errorf("find the server %d of the node %s: %w", id, n.Name, err)
}
