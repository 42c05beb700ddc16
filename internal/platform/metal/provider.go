// Package metal is bare metal: the user's own machines, which are enrolled in an
// inventory, reached over SSH, and made members of a cluster in place.
//
// It must not know how the inventory is stored, nor what is in the scripts and files that
// it copies to hosts.
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

// apiName is the name under which calls to hosts are limited.
const apiName = "ssh"

// In returns the platform, which logs in to machines as the program user's ssh(1) would.
func In(w platform.World) platform.Provider { return Provider(ssh.Environment(w.Getenv)) }

// Provider returns the platform, which logs in to machines according to o.
func Provider(o ssh.Options) platform.Provider {
	return platform.Provider{
		Platform: spec.Platform(),
		Kinds:    []resource.Any{hosts.Erase()},
		Limits:   map[string]int{apiName: 16},
		Connect: func(_ context.Context, c platform.Config) (*platform.Session, error) {
			return &platform.Session{Client: newClient(o, c.Hosts)}, nil
		},
		Lookup: platform.Lookup{
			Facts: func(context.Context, *platform.Session, *api.Cluster, []*api.InstanceGroup) (*facts.Facts, error) {
				return builtInFacts(), nil
			},
			NewClusterFacts: func(context.Context, *platform.Session, newcluster.Options, newcluster.World) (*facts.Facts, error) {
				return builtInFacts(), nil
			},
			Endpoint: apiEndpoint,
		},
		Declare: platform.Declare{Model: buildModel},
		Fleet:   platform.Fleet{Machines: listMachines, BootRecord: bootRecord, Roll: platform.Roll{InPlace: true}}, // machines are not created
		Hosts: platform.Hosts{Enroll: enroll, Release: func(ctx context.Context, s *platform.Session, c *api.Cluster, h *api.Host) error {
			return s.Client.(*client).reset(ctx, c.Name, h.Name) //nolint:errcheck // Connect created it
		}},
	}
}

// builtInFacts returns the facts about machines that no cloud describes.
func builtInFacts() *facts.Facts {
	return &facts.Facts{Clouds: map[string]*facts.Cloud{string(api.CloudMetal): {Architecture: string(download.AMD64)}}}
}

// answerTime is how long an API server may take to accept a connection.
const answerTime = 2 * time.Second

// apiEndpoint returns the address that the user has chosen, or else the first address of
// the control plane that accepts a connection.
func apiEndpoint(ctx context.Context, s *platform.Session, c *api.Cluster) (string, error) {
	if fixed, ok := spec.FixedAddress(c); ok {
		return fixed, nil
	}
	all := controlPlaneAddresses(c, s.Client.(*client).inventory) //nolint:errcheck // Connect created it
	for _, address := range all {
		dialer := net.Dialer{Timeout: answerTime}
		if conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(address, "443")); err == nil {
			_ = conn.Close() // it was only a test
			return address, nil
		}
	}
	if len(all) > 0 {
		return all[0], nil
	}
	return "", nil
}

// controlPlaneAddresses returns the addresses of the control-plane hosts: those with etcd members.
func controlPlaneAddresses(c *api.Cluster, inventory []*api.Host) []string {
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

// bootRecord reads the boot report of a host, and the output of its boot script.
func bootRecord(ctx context.Context, s *platform.Session, _ *api.Cluster, m platform.Machine) (r platform.BootRecord, err error) {
	c := s.Client.(*client) //nolint:errcheck // Connect created it
	read := func(file string) ([]byte, error) {
		return c.run(ctx, m.Name, `[ ! -e "$root`+file+`" ] || cat "$root`+file+`"`, nil)
	}
	if r.Report, err = read(report.File); err == nil {
		r.Console, err = read(onhost.BootLog)
	}
	return r, err
}

// listMachines lists the inventory by group. Whether a host runs is only known from its node.
func listMachines(_ context.Context, s *platform.Session, _ *api.Cluster, groups []*api.InstanceGroup) ([]platform.MachineGroup, error) {
	c := s.Client.(*client) //nolint:errcheck // Connect created it
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
