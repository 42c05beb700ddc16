package kops

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store/clusterstore"
)

// removal is what is taken out of the store of one cluster.
type removal struct {
	*change
	folders *clusterstore.Folders
	have    []clusterstore.SSHKey
	prints  []string // fingerprints of SSH keys that go
	gone    []string // how messages call all that goes
}

// Remove takes additional objects, and the SSH keys of SSHCredentials, out of their
// clusters' part of the store, and returns how messages call them; with an error,
// those of the clusters that were done before it. Without apply it only checks.
// Nothing is removed when one of them is not there.
//
// Clusters and groups have resources besides: DeleteCluster and DeleteGroup are for them.
func (s Clusters) Remove(ctx context.Context, objs []api.Object, apply bool) ([]string, error) {
	for _, o := range objs {
		switch o.(type) {
		case *api.Cluster, *api.InstanceGroup:
			return nil, fmt.Errorf("%s has cloud resources, and cannot be removed only from the store", displayName(o))
		}
	}
	byCluster, order, err := s.c.affected(ctx, objs)
	if err != nil {
		return nil, err
	}
	removals := map[string]*removal{}
	for _, n := range order {
		removals[n] = &removal{change: byCluster[n]}
	}
	for _, o := range objs {
		ch, err := owner(byCluster, order, o)
		if err != nil {
			return nil, err
		}
		r := removals[ch.now.Spec.Name]
		name, err := s.c.addRemoval(ctx, r, o)
		if err != nil {
			return nil, err
		}
		r.gone = append(r.gone, name)
	}
	var gone []string
	for _, n := range order {
		if apply {
			if err := s.c.carryOut(ctx, removals[n]); err != nil {
				return gone, err
			}
		}
		gone = append(gone, removals[n].gone...)
	}
	return gone, nil
}

// carryOut carries out the removal of one cluster.
func (c *Client) carryOut(ctx context.Context, r *removal) error {
	if _, err := c.store.Change(ctx, c.holder(), r.was.stored(), r.now); err != nil {
		return err
	}
	if len(r.prints) == 0 { // which would mean all keys
		return nil
	}
	if err := r.folders.DeleteSSHKeys(ctx, r.prints...); err != nil {
		return err
	}
	return c.store.Note(ctx, c.holder(), r.now, "deleted the SSH public key "+strings.Join(r.prints, ", "))
}

// addRemoval adds an object to what is taken out of a cluster, and returns how messages call it.
func (c *Client) addRemoval(ctx context.Context, r *removal, o api.Object) (string, error) {
	if k, ok := o.(*api.SSHCredential); ok {
		return c.addKeyRemoval(ctx, r, k)
	}
	i := slices.IndexFunc(r.now.Additional, sameAs(o))
	if i < 0 {
		return "", fault.New(fault.Gone, "%s is not among the additional objects of cluster %s", displayName(o), r.now.Spec.Name)
	}
	r.now.Additional = slices.Delete(r.now.Additional, i, i+1)
	return displayName(o), nil
}

// addKeyRemoval is addRemoval of an SSH key, which is known by its fingerprint, as all have one name.
func (c *Client) addKeyRemoval(ctx context.Context, r *removal, o *api.SSHCredential) (_ string, err error) {
	k, err := clusterstore.NewSSHKey(o.Spec.PublicKey)
	if err != nil {
		return "", err
	}
	if r.folders == nil {
		if r.folders, err = c.store.Folders(ctx, r.was.Spec, r.was.stored()); err != nil {
			return "", err
		}
		if r.have, err = r.folders.SSHKeys(ctx); err != nil {
			return "", err
		}
	}
	if !slices.ContainsFunc(r.have, func(h clusterstore.SSHKey) bool { return h.Fingerprint == k.Fingerprint }) {
		return "", fault.New(fault.Gone, "cluster %s has no SSH public key %s", r.now.Spec.Name, k.Fingerprint)
	}
	r.prints = append(r.prints, k.Fingerprint)
	return "sshpublickey/" + k.Fingerprint, nil
}
