package kinds

import (
	"context"
	"net/url"
	"slices"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/once"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/hetzner/hetznerapi"
	"kops.local/kops/internal/platform/hetzner/hetznercloud"
)

// SSHKey is a public key that new servers get. A project can have each key only once: if someone else, or
// another cluster, has created it, it is used as it is.
type SSHKey struct {
	// Name and Labels are those of a new key.
	Name        string `res:"writeonly" tf:"name"`
	PublicKey   string `res:"writeonly" tf:"public_key"`
	Labels      Labels `res:"writeonly" tf:"labels"`
	Fingerprint string `res:"forbid"`

	ID string `res:"out,id" out:"id"`
}

// SSHKeys is the kind of SSHKey.
var SSHKeys = resource.Kind[SSHKey, *Client]{
	Name:  "hcloud_ssh_key",
	API:   api,
	Phase: resource.Security,
	Tasks: []string{"SSHKey"},
	Early: true,
	Key:   func(k *SSHKey) string { return k.Fingerprint },
	List:  listKeys,
	Create: func(ctx context.Context, c *Client, k *SSHKey) error {
		return create(ctx, c, "ssh_keys", &k.ID, map[string]any{"name": k.Name, "public_key": k.PublicKey, "labels": k.Labels})
	},
	Delete: deleteKey,
}

// listKeys lists the cluster's keys, and wanted ones that others have created.
func listKeys(ctx context.Context, c *Client, s resource.Scope) ([]*SSHKey, error) {
	out, err := ownList(ctx, c, "ssh_keys", s.Cluster, keyOf)
	if err != nil {
		return nil, err
	}
	for _, fingerprint := range s.Names {
		if slices.ContainsFunc(out, func(k *SSHKey) bool { return k.Fingerprint == fingerprint }) {
			continue
		}
		found, err := once.Ask(ctx, c.answers, "SSH key "+fingerprint, func(ctx context.Context) ([]hetznerapi.SSHKey, error) {
			return hetznerapi.List[hetznerapi.SSHKey](ctx, c.Client, "ssh_keys", url.Values{"fingerprint": {fingerprint}})
		})
		if err != nil {
			return nil, err
		}
		for _, a := range found {
			out = append(out, keyOf(a))
		}
	}
	return out, nil
}

// deleteKey deletes a key. If there is another cluster in the project, it gets the key instead, because
// it may use the same one, and its Terraform may refer to it.
func deleteKey(ctx context.Context, c *Client, k *SSHKey) error {
	others := hetznercloud.ClusterLabel + "," + hetznercloud.ClusterLabel + "!=" + k.Labels[hetznercloud.ClusterLabel]
	balancers, err := list[hetznerapi.LoadBalancer](ctx, c, "load_balancers", others)
	if err != nil {
		return err
	}
	if len(balancers) == 0 {
		return c.Delete(ctx, k.ID)
	}
	return fault.IgnoreGone(c.Set(ctx, k.ID, map[string]any{"labels": Labels{hetznercloud.ClusterLabel: balancers[0].Labels[hetznercloud.ClusterLabel]}}))
}

func keyOf(a hetznerapi.SSHKey) *SSHKey {
	return &SSHKey{Name: a.Name, PublicKey: a.PublicKey, Labels: a.Labels, Fingerprint: a.Fingerprint, ID: hetznerapi.Path("ssh_keys", a.ID)}
}
