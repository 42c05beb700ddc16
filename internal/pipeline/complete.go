package pipeline

import (
	"slices"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/spec/validate"
)

// Completed is a cluster with a complete spec.
type Completed struct {
	*Known
	Done     *complete.Cluster
	Warnings diag.List
}

// Complete infers everything that the user did not specify.
func (k *Known) Complete() (*Completed, error) {
	in := k.World.Completion(k.Cluster, k.Facts, k.Channel)
	in.RunningVersion, in.Issuer = k.Running, k.kept.issuer
	done, findings := complete.Complete(in)
	warnings, err := join(k.Warnings, findings)
	if err != nil {
		return nil, err
	}
	if done.NodeVersion != done.Spec.Spec.KubernetesVersion {
		warnings = append(warnings, diag.Finding{
			Object: api.KindCluster + "/" + k.Cluster.Spec.Name, Path: "spec.kubernetesVersion", Value: done.Spec.Spec.KubernetesVersion,
			Rule: "running-version", Warning: true, Message: "workers stay at " + done.NodeVersion + ", which the control plane still runs",
			Remedy: "replace the control plane's machines, and update the cluster again",
		})
	}
	return &Completed{Known: k, Done: done, Warnings: warnings}, nil
}

// withWarnings returns the cluster with more warnings, or an error if a finding is not a warning.
func (c *Completed) withWarnings(findings diag.List) (*Completed, error) {
	warnings, err := join(c.Warnings, findings)
	return &Completed{Known: c.Known, Done: c.Done, Warnings: warnings}, err
}

// Guard rejects a completed cluster that another version of this program should apply. With
// downgrade, a newer version may have applied it last.
func (g *Gathered) Guard(c *Completed, downgrade bool) (*Completed, error) {
	w := g.World
	return c.withWarnings(validate.Guard(validate.Versions{Kops: w.Version, Kubernetes: c.Done.Spec.Spec.KubernetesVersion, Stored: g.appliedVersion, Channel: c.Channel,
		AllowDowngrade: downgrade, RunObsolete: w.RunObsolete, RunTooNew: w.RunTooNew}))
}

// Validate checks the completed cluster.
func (c *Completed) Validate() (*Completed, error) {
	w := c.World
	return c.withWarnings(slices.Concat(
		validate.All(validate.Input{Platform: c.Provider.ForValidate(), Cluster: c.Done.Spec, Groups: c.Done.Groups, Strict: true, Facts: c.Facts, Features: w.Features, Endpoint: w.endpoint()}),
		validate.NoEffect(&c.Provider.Traits, c.Cluster.Spec, c.Cluster.Groups),
		w.OnlyHere(c.Cluster.Spec),
		validate.Objects(c.Cluster.Additional)))
}
