package kops

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/encryption"
	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/ops/rotate"
	"kops.local/kops/internal/pipeline"
	"kops.local/kops/internal/store/clusterstore"
)

// Limits of a rotation.
const (
	// podTime is the time limit for pods to restart.
	podTime = 15 * time.Minute
	// reportTime is the time limit for machines to report their new state.
	reportTime = time.Minute
	// backupTime is the time limit for a backup by etcd's managers.
	backupTime = 2 * time.Minute
	// rewriteRate is how many objects are rewritten per second.
	rewriteRate = 50
)

// make creates the next signing items, unless an earlier attempt has: the newest item that can sign.
func (r *rotation) make(ctx context.Context) error {
	next := r.state
	next.New, next.Old = map[string]string{}, map[string][]string{}
	err := r.c.changeKeys(ctx, r.progress, func(ctx context.Context, f *clusterstore.Folders) (string, error) {
		all, err := f.Keysets(ctx)
		if err != nil {
			return "", err
		}
		for _, name := range rotate.Keysets(next.What, slices.Collect(maps.Keys(all))) {
			k, version, err := f.Keyset(ctx, name)
			if err != nil {
				return "", err
			}
			young, id, err := k.Promote("")
			if err != nil {
				return "", err
			}
			if young == k {
				if k, id, err = r.c.world.Issuer(ctx).Add(k, name, pki.NewItem{}); err != nil {
					return "", err
				}
				if err := f.ReplaceKeyset(ctx, k, version); err != nil {
					return "", err
				}
			}
			next.New[name] = id
			for _, i := range k.Items {
				if i.ID != id && i.Trusted() {
					next.Old[name] = append(next.Old[name], i.ID)
				}
			}
		}
		message := "created the keys of a rotation of " + next.What
		return message, r.encryptBy(ctx, f, func(c *encryption.Config, key string) (*encryption.Config, error) {
			return c.Add(key, r.c.cfg.World.Random)
		})
	})
	if err == nil {
		r.state.New, r.state.Old = next.New, next.Old
	}
	return err
}

// promoteKey and onlyKey return an EncryptionConfiguration whose new key encrypts, and one
// without the other keys.
func promoteKey(c *encryption.Config, key string) (*encryption.Config, error) { return c.Promote(key) }
func onlyKey(c *encryption.Config, key string) (*encryption.Config, error)    { return c.Only(key) }

// change changes each keyset of the rotation, and the EncryptionConfiguration.
func (r *rotation) change(ctx context.Context, message string, keyset func(k *pki.Keyset, name string) (*pki.Keyset, error), config func(*encryption.Config, string) (*encryption.Config, error)) error {
	return r.c.changeKeys(ctx, r.progress, func(ctx context.Context, f *clusterstore.Folders) (string, error) {
		for _, name := range slices.Sorted(maps.Keys(r.state.New)) {
			_, err := changeKeyset(ctx, f, name, func(was *pki.Keyset, name string) (*pki.Keyset, []KeypairChange, error) {
				if was == nil {
					return nil, nil, noKeyset(r.progress.cluster, name)
				}
				now, err := keyset(was, name)
				return now, nil, err
			})
			if err != nil {
				return "", err
			}
		}
		return message, r.encryptBy(ctx, f, config)
	})
}

// encryptBy changes the EncryptionConfiguration, if its key is rotated.
func (r *rotation) encryptBy(ctx context.Context, f *clusterstore.Folders, change func(*encryption.Config, string) (*encryption.Config, error)) error {
	if r.state.Key == "" {
		return nil
	}
	was, version, err := f.SecretAt(ctx, pki.EncryptionConfig)
	if err != nil {
		return err
	}
	before, err := encryption.Parse([]byte(was.Reveal()))
	var c *encryption.Config
	if err == nil {
		c, err = change(before, r.state.Key)
	}
	if err != nil {
		return fault.Wrap(fault.Permanent, fmt.Errorf("secret %s: %w", pki.EncryptionConfig, err), "correct it with kops create secret encryptionconfig and option:Force")
	}
	text, err := c.Text()
	if err != nil {
		return err
	}
	if err := r.c.keepRetired(ctx, r.progress.cluster, f, before, c); err != nil {
		return err
	}
	return f.ReplaceSecret(ctx, pki.EncryptionConfig, pki.NewSecret(text), version)
}

// move writes the desired state of machines, and makes them apply it.
func (r *rotation) move(ctx context.Context) error {
	return r.c.applyToMachines(ctx, r.progress.cluster, applyOptions{ReachOptions: r.o.ReachOptions, roll: r.o.Roll, on: r.o.On,
		facts: r.o.Facts, allowUnverified: r.o.AllowUnverified})
}

// applyOptions configures how machines apply the stored state.
type applyOptions struct {
	ReachOptions
	// roll changes the machines; it may be nil.
	roll func(context.Context) error
	on   On
	// facts and allowUnverified are options of the update.
	facts           *Facts
	allowUnverified bool
	// groups selects the groups whose machines matter; nil means all.
	groups func(*api.InstanceGroup) bool
}

// unreachedError means that the API did not answer.
type unreachedError struct{ error }

func (e *unreachedError) Unwrap() error { return e.error }

// applyToMachines updates a cluster, makes its machines apply the update, and returns when
// their nodes report that they have.
func (c *Client) applyToMachines(ctx context.Context, cluster string, t applyOptions) error {
	if _, err := c.Update(ctx, cluster, UpdateOptions{Apply: true, On: t.on, Facts: t.facts, AllowUnverified: t.allowUnverified}); err != nil {
		return err
	}
	look := func() ([]string, error) {
		k, err := c.checkup(ctx, &reporter{cluster: cluster}, t.ReachOptions, pipeline.CheckupLife) // API servers may present another certificate now
		if err != nil {
			return nil, &unreachedError{err}
		}
		behind, err := nodesNotRunning(ctx, k, t.groups)
		if err != nil {
			err = &unreachedError{err}
		}
		return behind, err
	}
	behind, err := look()
	if err != nil {
		return err
	}
	if len(behind) > 0 && t.roll != nil {
		if err := t.roll(ctx); err != nil {
			return err
		}
		began := c.cfg.World.Now()
		for {
			if behind, err = look(); err != nil || len(behind) == 0 || c.cfg.World.Now().Sub(began) > reportTime {
				break
			}
			if err := c.cfg.World.Sleep(ctx, 2*time.Second); err != nil {
				return err
			}
		}
	}
	if err != nil || len(behind) == 0 {
		return err
	}
	return fault.Wrap(fault.NotYet, fmt.Errorf("%d nodes have not reported the configuration that the update wrote: %s", len(behind), firstNames(behind)),
		"run kops rolling-update cluster "+cluster+" --yes, and then this command again")
}

// firstNames returns the first of some names.
func firstNames(names []string) string {
	if len(names) > 5 {
		return strings.Join(names[:5], ", ") + " …"
	}
	return strings.Join(names, ", ")
}

// checkup checks the cluster, with the current authorities.
func (r *rotation) checkup(ctx context.Context) (*pipeline.Checkup, error) {
	return r.c.checkup(ctx, &reporter{cluster: r.progress.cluster}, r.o.ReachOptions, pipeline.CheckupLife)
}

// nodesNotRunning lists the nodes of some groups, or of all if groups is nil, whose machines do
// not report that they run the stored configuration of their groups.
func nodesNotRunning(ctx context.Context, k *pipeline.Checkup, groups func(*api.InstanceGroup) bool) ([]string, error) {
	client, err := k.Kubernetes(ctx)
	if err != nil {
		return nil, err
	}
	nodes, err := client.Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the nodes: %w", err)
	}
	want := map[string]string{}
	for _, g := range k.Cluster.Groups {
		if groups != nil && !groups(g) {
			continue
		}
		hash, err := k.ConfigHash(ctx, g)
		if err != nil && !fault.Is(err, fault.Gone) {
			return nil, err
		}
		if err == nil {
			want[g.Name] = hash
		}
	}
	return outdatedNodes(nodes.Items, want), nil
}

// outdatedNodes lists the nodes that do not report that they run the configuration of their group;
// want has its hash by group name.
func outdatedNodes(nodes []corev1.Node, want map[string]string) []string {
	var out []string
	for _, n := range nodes {
		running, there, err := labels.Read[labels.Running](n.Annotations, labels.NodeConfig)
		hash, wanted := want[n.Labels[api.LabelInstanceGroup]]
		if wanted && (!there || err != nil || running.Hash != hash) {
			out = append(out, n.Name)
		}
	}
	slices.Sort(out)
	return out
}

// restart restarts the pods that were started before the last step was done.
func (r *rotation) restart(ctx context.Context) error {
	k, err := r.checkup(ctx)
	if err != nil {
		return err
	}
	client, err := k.Kubernetes(ctx)
	if err != nil {
		return err
	}
	if r.state.Step == rotate.Tokens {
		if _, err := rotate.RenewTokens(ctx, client, r.state.Since); err != nil {
			return err
		}
	}
	owners, left, err := rotate.FindRestarts(ctx, client, r.state.Since)
	if err != nil {
		return err
	}
	var onDelete []rotate.Owner
	for _, o := range owners {
		waits, err := rotate.Restart(ctx, client, o, r.state.Since)
		if err != nil {
			return err
		}
		if waits {
			onDelete = append(onDelete, o)
		}
	}
	r.state.Left = left
	return rotate.Wait(ctx, client, owners, onDelete, r.state.Since, podTime, r.c.cfg.World.Now, r.c.cfg.World.Sleep)
}

// backUp requests a backup of the cluster's objects. If no manager takes one in time, as
// with kOps' managers, the next scheduled one follows, and the rotation finishes anyway.
func (r *rotation) backUp(ctx context.Context) error {
	_, err := r.c.Etcd().BackUp(ctx, r.progress.cluster, "main", backupTime)
	if fault.Is(err, fault.NotYet) && ctx.Err() == nil {
		r.state.NoBackup, err = err.Error(), nil
	}
	return err
}

// rewrite rewrites what the old key has encrypted, resource by resource.
func (r *rotation) rewrite(ctx context.Context) error {
	k, err := r.checkup(ctx)
	if err != nil {
		return err
	}
	client, err := k.Kubernetes(ctx)
	if err != nil {
		return err
	}
	served, err := client.Resources(ctx)
	if err != nil {
		return err
	}
	secret, err := k.Places.Secret(ctx, pki.EncryptionConfig)
	if err != nil {
		return err
	}
	config, err := encryption.Parse([]byte(secret.Reveal()))
	if err != nil {
		return err
	}
	resources, err := rotate.Resources(served, config.Encrypted())
	if err != nil {
		return err
	}
	writing, err := k.Rewriting(ctx, rewriteRate)
	if err != nil {
		return err
	}
	for _, resource := range resources {
		name := resource.GroupResource().String()
		if slices.Contains(r.state.Rewritten, name) {
			continue
		}
		err := rotate.Objects(ctx, writing, resource, func(done int) {
			shown := r.public(nil)
			shown.Progress = fmt.Sprintf("%s: %d", name, done)
			_ = r.progress.report(Event{Kind: EventRotation, Rotation: shown}) // a request to stop is handled at the next step
		})
		if err != nil {
			return err
		}
		next := r.state
		next.Rewritten = append(slices.Clone(next.Rewritten), name)
		if err := r.keep(ctx, next); err != nil {
			return err
		}
	}
	return nil
}

// checkUnused refuses to continue while anything in use depends on items that will no longer be
// trusted.
func (r *rotation) checkUnused(ctx context.Context) error {
	k, err := r.checkup(ctx)
	if err != nil {
		return err
	}
	behind, err := nodesNotRunning(ctx, k, nil)
	if err != nil {
		return err
	}
	if len(behind) > 0 {
		return fault.Wrap(fault.NotYet, fmt.Errorf("nodes do not run the configuration that the last update wrote: %s", firstNames(behind)), "run kops rolling-update cluster "+r.progress.cluster+" --yes, and then this command again")
	}
	if len(r.state.New) == 0 {
		return nil
	}
	stock, err := k.Certificates(ctx)
	if err != nil {
		return err
	}
	if former := stock.SignedByOthers(slices.Collect(maps.Keys(r.state.New))); len(former) > 0 {
		return fault.Wrap(fault.NotYet, errors.New("the old keys are still in use by "+strings.Join(former, "; ")), "kops get certificates shows them; replace these machines, and run this command again")
	}
	return nil
}
