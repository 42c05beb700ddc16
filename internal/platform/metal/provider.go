// Package metal is bare metal: machines of the user, which are enrolled in an inventory,
// reached over SSH, and made members of a cluster in place.
//
// It must not know how the inventory is stored, nor what stands in the scripts and files
// that it brings to hosts.
package metal

import (
	"context"
	"net"
	"slices"
	"time"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/node/agent/report"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/metal/onhost"
	"kops.local/kops/internal/platform/metal/spec"
	"kops.local/kops/internal/platform/ssh"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/newcluster"
)

// api is the name under which calls to hosts are limited.
const apiName = "ssh"

// In returns the platform, whose machines are logged in to as ssh(1) of the program's user does.
func In(w platform.World) platform.Provider { return Provider(ssh.Environment(w.Getenv)) }

// Provider returns the platform, whose machines are logged in to as o says.
func Provider(o ssh.Options) platform.Provider {
	return platform.Provider{
		Platform: spec.Platform(),
		Kinds:    []resource.Any{hosts.Erase()},
		Limits:   map[string]int{apiName: 16},
		Connect: func(_ context.Context, c platform.Config) (*platform.Session, error) {
			return &platform.Session{Client: newClient(o, c.Hosts)}, nil
		},
		Facts: func(context.Context, *platform.Session, *api.Cluster, []*api.InstanceGroup) (*facts.Facts, error) {
			return known(), nil
		},
		NewClusterFacts: func(context.Context, *platform.Session, newcluster.Options, newcluster.World) (*facts.Facts, error) {
			return known(), nil
		},
		Model:    model,
		Endpoint: endpoint,
		Machines: machines, BootRecord: bootRecord,
		Roll:   platform.Roll{InPlace: true}, // nobody makes another machine
		Enroll: enroll,
		Release: func(ctx context.Context, s *platform.Session, c *api.Cluster, h *api.Host) error {
			return s.Client.(*client).reset(ctx, c.Name, h.Name) //nolint:errcheck // Connect made it
		},
	}
}

// known is what is known of machines that nobody describes.
func known() *facts.Facts {
	return &facts.Facts{Clouds: map[string]*facts.Cloud{string(api.CloudMetal): {Architecture: string(download.AMD64)}}}
}

// answerTime is how long an API server may take to take a connection.
const answerTime = 2 * time.Second

// endpoint is the address that the user has chosen, or else the first of the control
// plane's at which somebody answers.
func endpoint(ctx context.Context, s *platform.Session, c *api.Cluster) (string, error) {
	if fixed, ok := spec.FixedAddress(c); ok {
		return fixed, nil
	}
	all := servers(c, s.Client.(*client).inventory) //nolint:errcheck // Connect made it
	for _, address := range all {
		dialer := net.Dialer{Timeout: answerTime}
		if conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(address, "443")); err == nil {
			_ = conn.Close() // it was only tried
			return address, nil
		}
	}
	if len(all) > 0 {
		return all[0], nil
	}
	return "", nil
}

// servers are the addresses of the hosts of the control plane: those with members of etcd.
func servers(c *api.Cluster, inventory []*api.Host) []string {
	var out []string
	for _, h := range inventory {
		for _, e := range c.Spec.EtcdClusters {
			if slices.ContainsFunc(e.EtcdMembers, func(m api.EtcdMemberSpec) bool {
				return m.InstanceGroup != nil && *m.InstanceGroup == h.Spec.InstanceGroup
			}) {
				out = append(out, address(h))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// bootRecord reads the boot report of a host, and what its boot script said.
func bootRecord(ctx context.Context, s *platform.Session, _ *api.Cluster, m platform.Machine) (r platform.BootRecord, err error) {
	c := s.Client.(*client) //nolint:errcheck // Connect made it
	read := func(file string) ([]byte, error) {
		return c.run(ctx, m.Name, `[ ! -e "$root`+file+`" ] || cat "$root`+file+`"`, nil)
	}
	if r.Report, err = read(report.File); err == nil {
		r.Console, err = read(onhost.BootLog)
	}
	return r, err
}

// machines lists the inventory by group. A host's node says whether it runs.
func machines(_ context.Context, s *platform.Session, _ *api.Cluster, groups []*api.InstanceGroup) ([]platform.MachineGroup, error) {
	c := s.Client.(*client) //nolint:errcheck // Connect made it
	var out []platform.MachineGroup
	for _, g := range groups {
		shown := platform.MachineGroup{Name: g.Name}
		for _, h := range c.inventory {
			if h.Spec.InstanceGroup == g.Name {
				shown.Machines = append(shown.Machines, platform.Machine{Name: h.Name, Group: g.Name, Node: h.Name,
					Addresses: []string{h.Annotations[api.AnnotationAddress]}, State: "enrolled", Running: true, Created: h.CreationTimestamp.Time})
			}
		}
		if shown.Target = len(shown.Machines); shown.Target == 0 && g.IsControlPlane() {
			shown.Trouble = "no host is enrolled in it; run: kops toolbox enroll --instance-group " + g.Name
		}
		out = append(out, shown)
	}
	return out, nil
}
