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

// removal is what is removed from the store of one cluster.
type removal struct {
	*change
	folders      *clusterstore.Folders
	have         []clusterstore.SSHKey
	prints       []string // fingerprints of SSH keys to remove
	removedNames []string // the names of all removed objects in messages
}

// Remove removes additional objects, and the SSH keys of SSHCredentials, from their
// clusters' part of the store, and returns their names in messages; with an error,
// the names for the clusters that were done before it. Without apply it only checks.
// If one of them does not exist, nothing is removed.
//
// Clusters and groups also have resources: use DeleteCluster and DeleteGroup for them.
func (s Clusters) Remove(ctx context.Context, objs []api.Object, apply bool) ([]string, error) {
	for _, o := range objs {
		switch o.(type) {
		case *api.Cluster, *api.InstanceGroup:
			return nil, fmt.Errorf("%s has cloud resources, and cannot be removed only from the store", displayName(o))
		}
	}
	byCluster, order, err := s.c.changesOf(ctx, objs)
	if err != nil {
		return nil, err
	}
	removals := map[string]*removal{}
	for _, n := range order {
		removals[n] = &removal{change: byCluster[n]}
	}
	for _, o := range objs {
		ch, err := changeOwning(byCluster, order, o)
		if err != nil {
			return nil, err
		}
		r := removals[ch.now.Spec.Name]
		name, err := s.c.addRemoval(ctx, r, o)
		if err != nil {
			return nil, err
		}
		r.removedNames = append(r.removedNames, name)
	}
	var gone []string
	for _, n := range order {
		if apply {
			if err := s.c.remove(ctx, removals[n]); err != nil {
				return gone, err
			}
		}
		gone = append(gone, removals[n].removedNames...)
	}
	return gone, nil
}

// remove does the removal for one cluster.
func (c *Client) remove(ctx context.Context, r *removal) error {
	if _, err := c.store.Change(ctx, c.holder(), r.stored.stored(), r.now); err != nil {
		return err
	}
	if len(r.prints) == 0 { // it would mean all keys
		return nil
	}
	if err := r.folders.DeleteSSHKeys(ctx, r.prints...); err != nil {
		return err
	}
	return c.store.Note(ctx, c.holder(), r.now, "deleted the SSH public key "+strings.Join(r.prints, ", "))
}

// addRemoval adds an object to the removal from a cluster, and returns its name in messages.
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

// addKeyRemoval is addRemoval for an SSH key, which is identified by its fingerprint, because all keys have the same name.
func (c *Client) addKeyRemoval(ctx context.Context, r *removal, o *api.SSHCredential) (_ string, err error) {
	k, err := clusterstore.NewSSHKey(o.Spec.PublicKey)
	if err != nil {
		return "", err
	}
	if r.folders == nil {
		if r.folders, err = c.ownedFolders(ctx, r.stored); err != nil {
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
