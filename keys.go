package kops

import (
	"context"
	"fmt"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/traits"
	"kops.local/kops/internal/spec/validate"
	"kops.local/kops/internal/store/clusterstore"
)

// SSHKey is a public key that may log in to the machines of a cluster.
type SSHKey struct {
	// Fingerprint is the MD5 of the key's wire form, in hex with colons.
	Fingerprint string
	// Text is the key as it was given: a line as in authorized_keys.
	Text string
}

func (c *Client) folders(ctx context.Context, cluster string) (*clusterstore.Folders, error) {
	cl, err := c.Clusters().Get(ctx, cluster)
	if err != nil {
		return nil, err
	}
	return c.store.Folders(ctx, cl.Spec, cl.stored())
}

// Keys operates on the SSH public keys of clusters.
type Keys struct{ c *Client }

// Keys returns the operations on SSH public keys.
func (c *Client) Keys() Keys { return Keys{c} }

// List lists the keys that may log in to the machines of a cluster.
func (k Keys) List(ctx context.Context, cluster string) ([]SSHKey, error) {
	f, err := k.c.folders(ctx, cluster)
	if err != nil {
		return nil, err
	}
	keys, err := f.SSHKeys(ctx)
	var out []SSHKey
	for _, k := range keys {
		out = append(out, SSHKey(k))
	}
	return out, err
}

// Add stores a key in OpenSSH's format, and reports whether it is new to the cluster.
func (k Keys) Add(ctx context.Context, cluster string, text []byte) (key SSHKey, added bool, err error) {
	parsed, err := clusterstore.NewSSHKey(string(text))
	if err != nil {
		return SSHKey{}, false, err
	}
	cl, err := k.c.Clusters().Get(ctx, cluster)
	if err != nil {
		return SSHKey{}, false, err
	}
	names, err := k.c.addSSHKeys(ctx, cl.stored(), parsed)
	return SSHKey(parsed), len(names) > 0, err
}

// addSSHKeys adds keys to a cluster, records the new ones, and returns their fingerprints.
func (c *Client) addSSHKeys(ctx context.Context, cl *clusterstore.Contents, keys ...clusterstore.SSHKey) (added []string, err error) {
	f, err := c.store.Folders(ctx, cl.Spec, cl)
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		there, err := f.HasSSHKey(ctx, k)
		if err == nil {
			err = addSSHKey(ctx, cl.Spec, &c.world.PlatformOf(cl.Spec).Traits, f, k)
		}
		if err != nil {
			return nil, err
		}
		if !there {
			added = append(added, k.Fingerprint)
		}
	}
	if len(added) == 0 {
		return nil, nil
	}
	return added, c.store.Note(ctx, c.holder(), cl, "added the SSH public key "+strings.Join(added, ", "))
}

// addSSHKey adds a key, unless that would make updates impossible.
func addSSHKey(ctx context.Context, cl *api.Cluster, on *traits.Traits, f *clusterstore.Folders, k clusterstore.SSHKey) error {
	others, err := f.OtherSSHKeys(ctx, k)
	if err != nil {
		return err
	}
	if len(others) > 0 && validate.SSHKeys(cl, on, len(others)+1).Err() != nil {
		return fault.Wrap(fault.Conflict, fmt.Errorf("cluster %s already has another SSH public key, and machines on %s accept only one", cl.Name, cl.CloudProviderID()),
			fmt.Sprintf("delete it first: kops delete sshpublickey %s", cl.Name))
	}
	return f.AddSSHKey(ctx, k)
}

// Delete removes all keys of a cluster. It is an error if the cluster has no keys.
func (k Keys) Delete(ctx context.Context, cluster string) error {
	cl, err := k.c.Clusters().Get(ctx, cluster)
	if err != nil {
		return err
	}
	f, err := k.c.ownedFolders(ctx, cl)
	if err != nil {
		return err
	}
	keys, err := f.SSHKeys(ctx)
	if err != nil {
		return err
	}
	if len(keys) == 0 {
		return fault.New(fault.Gone, "cluster %s has no SSH public key", cluster)
	}
	if err := f.DeleteSSHKeys(ctx); err != nil {
		return err
	}
	return k.c.store.Note(ctx, k.c.holder(), cl.stored(), "deleted all SSH public keys")
}
