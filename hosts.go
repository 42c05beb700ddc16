package kops

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/pipeline"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/ssh"
	"kops.local/kops/internal/store/clusterstore"
)

// EnrollOptions identify the user's machine that is to become a member of a cluster.
type EnrollOptions struct {
	// Group is its instance group.
	Group string
	// Address is its name or IP address with the SSH port, and User the login user.
	Address, User string
	// HostKey is the fingerprint of its host key, such as SHA256:…; if empty, it is in known_hosts.
	HostKey string
	// PodCIDRs are the ranges of its pods, if they are chosen manually.
	PodCIDRs []string
	// Replace is the name of a permanently lost host, which another machine with
	// the same name replaces.
	Replace string
}

// Hosts operates on the user's machines in the inventories of clusters.
type Hosts struct{ c *Client }

// Hosts returns the operations on the user's own machines.
func (c *Client) Hosts() Hosts { return Hosts{c} }

// Find identifies a machine of the user, and verifies its identity, but does not
// enroll it yet.
func (s Hosts) Find(ctx context.Context, cluster string, o EnrollOptions) (*api.Host, error) {
	cl, err := s.c.Clusters().Get(ctx, cluster)
	if err != nil {
		return nil, err
	}
	return s.c.host(ctx, cl, o)
}

func (c *Client) host(ctx context.Context, cl *Cluster, o EnrollOptions) (*api.Host, error) {
	groups, err := cl.SelectGroups(o.Group)
	if err != nil {
		return nil, err
	}
	opened, err := c.openForHosts(ctx, cl)
	if err != nil {
		return nil, err
	}
	h, err := opened.Provider.Hosts.Enroll(ctx, opened.Session, platform.Enrollment{Cluster: cl.Spec, Group: groups[0], PodCIDRs: o.PodCIDRs,
		Target: ssh.Target{Address: o.Address, User: o.User, Fingerprint: o.HostKey}})
	if err != nil {
		return nil, fmt.Errorf("enroll %s: %w", o.Address, err)
	}
	if err := replaces(cl.stored().Host(h.Name), h, o); err != nil {
		return nil, err
	}
	return h, nil
}

// replaces returns an error if a machine would replace another host of the same name
// that o does not name, or if it would not replace the host that o names.
func replaces(old, h *api.Host, o EnrollOptions) error {
	const another = "if it is another machine, give it a unique name: hostnamectl set-hostname NAME"
	switch {
	case o.Replace != "" && o.Replace != h.Name:
		return fault.Wrap(fault.Conflict, fmt.Errorf("enroll %s: the machine is called %s and cannot replace the host %s", o.Address, h.Name, o.Replace),
			"leave out option:Replace; if the host "+o.Replace+" is gone, delete it with a separate command")
	case old == nil && o.Replace != "":
		return fault.New(fault.Gone, "enroll %s: there is no host %s to replace", o.Address, o.Replace)
	case old == nil || o.Replace != "" || isSameMachine(old, h):
		return nil
	}
	return fault.Wrap(fault.Conflict, fmt.Errorf("enroll %s: the host %s is another machine, at %s with other keys", o.Address, h.Name, old.Annotations[api.AnnotationSSH]),
		another+"; if the host is gone, or was installed again, replace it: option:Replace="+h.Name)
}

// isSameMachine reports whether two hosts have the same public key and, if the first
// one's is known, the same host key.
func isSameMachine(old, h *api.Host) bool {
	known := old.Annotations[api.AnnotationSSHKey]
	return strings.TrimSpace(old.Spec.PublicKey) == strings.TrimSpace(h.Spec.PublicKey) && (known == "" || known == h.Annotations[api.AnnotationSSHKey])
}

// openForHosts opens the platform of a cluster, which must support machines of the user.
func (c *Client) openForHosts(ctx context.Context, cl *Cluster) (*pipeline.Opened, error) {
	opened, err := c.world.Open(ctx, cl.stored(), pipeline.OpenOptions{})
	if err == nil && opened.Provider.Hosts.Enroll == nil {
		err = fault.Wrap(fault.Permanent, fmt.Errorf("clusters on %s cannot use your own machines: the platform creates them", opened.Provider.Title),
			"set the size of an instance group instead")
	}
	return opened, err
}

// Enroll adds a machine of the user to the inventory of a cluster; the next update
// makes it a member. Enrolling it again may change its group and its SSH address. Another
// machine of the same name requires Replace. Enroll only writes to the store.
func (s Hosts) Enroll(ctx context.Context, cluster string, o EnrollOptions) (*api.Host, error) {
	cl, err := s.c.Clusters().Get(ctx, cluster)
	if err != nil {
		return nil, err
	}
	h, err := s.c.host(ctx, cl, o)
	if err != nil {
		return nil, err
	}
	now := cl.stored().Clone()
	now.Hosts = append(slices.DeleteFunc(now.Hosts, func(old *api.Host) bool { return old.Name == h.Name }), h)
	saved, err := s.c.store.Change(ctx, s.c.holder(), cl.stored(), now)
	if err != nil {
		return nil, err
	}
	return saved.Host(h.Name), nil
}

// ReleaseOptions configure the release of a host.
type ReleaseOptions struct {
	// Lost means that the machine is permanently lost, and cannot be accessed.
	Lost bool
	// Apply releases the host; otherwise the release is only checked.
	Apply bool
	// On receives the events of the call.
	On On
}

// Release stops everything that a cluster runs on a host, and removes the host from the
// inventory; the next update informs the other hosts.
func (s Hosts) Release(ctx context.Context, cluster, name string, o ReleaseOptions) error {
	progress := &reporter{cluster: cluster, on: o.On}
	if !o.Apply {
		_, _, err := s.c.readHost(ctx, progress, name)
		return err
	}
	return s.c.withLease(ctx, progress, func(ctx context.Context, _ *clusterstore.Lease) error {
		cl, h, err := s.c.readHost(ctx, progress, name)
		if err != nil {
			return err
		}
		opened, err := s.c.openForHosts(ctx, cl)
		if err != nil {
			return err
		}
		if !o.Lost {
			if err := opened.Provider.Hosts.Release(ctx, opened.Session, cl.Spec, h); err != nil {
				return fmt.Errorf("release the host %s: %w", name, err)
			}
		}
		now := cl.stored().Clone()
		now.Hosts = slices.DeleteFunc(now.Hosts, func(old *api.Host) bool { return old.Name == name })
		_, err = s.c.store.Change(ctx, s.c.holder(), cl.stored(), now)
		return err
	})
}

// readHost reads a cluster, and one of its hosts.
func (c *Client) readHost(ctx context.Context, progress *reporter, name string) (*Cluster, *api.Host, error) {
	cl, err := c.readCluster(ctx, progress)
	if err != nil {
		return nil, nil, err
	}
	if h := cl.stored().Host(name); h != nil {
		return cl, h, nil
	}
	var known []string
	for _, h := range cl.Hosts {
		known = append(known, h.Name)
	}
	if len(known) == 0 {
		known = []string{"none"}
	}
	return nil, nil, fault.New(fault.Gone, "host %q not found in cluster %s; it has %s", name, progress.cluster, strings.Join(known, ", "))
}
