package stale

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/ops/health"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/spec/effects"
)

// In is a view of a cluster, and its desired state.
type In struct {
	Groups   []*api.InstanceGroup
	Machines []platform.MachineGroup
	// Effects are the effects of fields on the cluster's platform.
	Effects effects.Table
	// Drifts is the platform's report about machines, by their names.
	Drifts map[string]platform.Drift
	// Nodes are the cluster's nodes; empty if its API server cannot be queried.
	Nodes []corev1.Node
	// Wanted is what machines should run, by the name of their group.
	Wanted map[string]Wanted
	// Applied is the current configuration of groups whose machines the platform would still create
	// with it, if it differs from Wanted: the difference is then a plan that was not applied yet.
	Applied map[string]Applied
	// Kept are earlier node configurations, by hash.
	Kept map[string][]byte
	// InPlace means that machines are changed in place, and never replaced.
	InPlace bool
}

// Wanted is what the machines of a group should run.
type Wanted struct {
	// Config is their node configuration; empty if it is not known.
	Config []byte
	// Files are digests (labels.Digest) of the manifests that they read from the store, by
	// key below the cluster's folder.
	Files map[string]string
	// Changes are what a plan that was not applied yet will change; Touched means that it changes
	// what the platform creates the machines from.
	Changes []platform.Change
	Touched bool
	// AddOns are the add-ons that need a rolling update, and that the plan changes: once they are
	// applied, the nodes are annotated (Annotated).
	AddOns []string
}

// Applied is what machines run, in the form of Wanted.
type Applied struct {
	Config []byte
	Files  map[string]string
}

// Hash returns the hash of the node configuration; "" if it is not known.
func (a Applied) Hash() string { return hash(a.Config) }

func hash(config []byte) string {
	if len(config) == 0 {
		return ""
	}
	return nodeconfig.Hash(config)
}

// Reasons without a field of the spec.
const (
	Annotated   = "annotation " + labels.NeedsUpdate
	Detached    = "it is detached from its group"
	Unexplained = "the platform would create it differently"
	Unjoined    = "it has not joined the cluster"
)

// Judge returns how each machine differs from its desired state, in the order of the groups and of
// their machines.
func Judge(in In) []Machine {
	groups := map[string]*api.InstanceGroup{}
	for _, g := range in.Groups {
		groups[g.Name] = g
	}
	cache := map[[2]string][]Reason{}
	var out []Machine
	for _, shown := range in.Machines {
		for _, m := range shown.Machines {
			j := Machine{Machine: m}
			if g := groups[m.Group]; g != nil {
				j.Role = g.Spec.Role
			}
			n := health.NodeOf(m, in.Nodes)
			if n != nil {
				j.NodeName, j.Version, j.Ready = n.Name, n.Status.NodeInfo.KubeletVersion, health.Unready(n) == ""
			}
			j.Reasons = in.reasons(m, n, cache)
			for i, r := range j.Reasons {
				if in.InPlace {
					j.Reasons[i].Effect = min(r.Effect, Restart)
				}
				j.Effect = max(j.Effect, j.Reasons[i].Effect)
			}
			if n == nil && len(in.Nodes) > 0 && !in.InPlace && j.Effect == Restart { // only a node can be asked to restart
				j.Effect, j.Reasons = Replace, slices.Insert(j.Reasons, 0, Reason{Field: Unjoined, Effect: Replace})
			}
			out = append(out, j)
		}
	}
	return out
}

// reasons returns all differences of one machine, the greatest effect first. What a machine was
// created with no longer counts if its node reports that it runs something else now. cache holds
// the differences between configurations by hash: most machines run the same ones.
func (in In) reasons(m platform.Machine, n *corev1.Node, cache map[[2]string][]Reason) []Reason {
	want, made := in.Wanted[m.Group], in.Drifts[m.Name]
	var out []Reason
	for _, c := range mergeChanges(made.Changes, want.Changes) {
		if c.Field == authority && namesAuthorities(want.Config) {
			continue // whatever the machine was created with, its configuration decides
		}
		out = addReason(out, Reason{c.Field, c.Have, c.Want, in.Effects.OfAny(c.Field)})
	}
	runs, wanted := in.running(m, n), hash(want.Config)
	if runs.Hash != "" && wanted != "" && runs.Hash != wanted {
		pair := [2]string{runs.Hash, wanted}
		if cache[pair] == nil {
			cache[pair] = in.differences(in.Kept[runs.Hash], want.Config, runs.Hash, wanted)
		}
		for _, r := range cache[pair] {
			out = addReason(out, r)
		}
	}
	out = append(out, files(runs.Files, want.Files)...)
	for _, name := range want.AddOns {
		out = append(out, Reason{Field: "add-on " + name + " (once it is applied)", Effect: Replace})
	}
	if needsUpdate(n) {
		out = append(out, Reason{Field: Annotated, Effect: Replace})
	}
	if m.Detached {
		out = append(out, Reason{Field: Detached, Effect: Replace})
	}
	mended := made.Config != "" && made.Config != runs.Hash && runs.Hash == cmp.Or(wanted, made.Wanted) // the wanted configuration is not read if it cannot be a reason
	if len(out) == 0 && (want.Touched || m.Outdated && !mended) {
		out = append(out, Reason{Field: Unexplained, Effect: Replace})
	}
	slices.SortStableFunc(out, func(a, b Reason) int { return cmp.Compare(b.Effect, a.Effect) })
	return out
}

// mergeChanges returns the changes from what a machine was created with to a plan: what the machine
// has comes from the platform, if known, and not from the last applied spec. A field that the plan
// sets back to what the machine has is not a change.
func mergeChanges(made, plan []platform.Change) []platform.Change {
	out := slices.Clone(plan)
	for _, m := range made {
		at := slices.IndexFunc(out, func(c platform.Change) bool { return c.Field == m.Field })
		if at < 0 {
			out = append(out, m)
			continue
		}
		out[at].Have = m.Have
	}
	return slices.DeleteFunc(out, func(c platform.Change) bool { return c.Have == c.Want })
}

// namesAuthorities reports whether a configuration lists the cluster authorities that the machine
// trusts.
func namesAuthorities(config []byte) bool {
	c, err := nodeconfig.Parse(config)
	return err == nil && c.CAs[pki.KubernetesCA] != ""
}

// addReason adds a reason, unless the field has one.
func addReason(all []Reason, r Reason) []Reason {
	if slices.ContainsFunc(all, func(x Reason) bool { return x.Field == r.Field }) {
		return all
	}
	return append(all, r)
}

// running returns what a machine runs: what its node reports, or what the platform created it with.
func (in In) running(m platform.Machine, n *corev1.Node) labels.Running {
	if r, reported := reportedRunning(n); reported {
		return r
	}
	if made := in.Drifts[m.Name].Config; made != "" {
		return labels.Running{Hash: made}
	}
	if a, ok := in.Applied[m.Group]; ok && !m.Outdated {
		return labels.Running{Hash: a.Hash(), Files: a.Files}
	}
	return labels.Running{}
}

// InUse returns the hashes of the node configurations that machines run.
func (in In) InUse() []string {
	out := []string{}
	for _, g := range in.Machines {
		for _, m := range g.Machines {
			if h := in.running(m, health.NodeOf(m, in.Nodes)).Hash; h != "" && !slices.Contains(out, h) {
				out = append(out, h)
			}
		}
	}
	return out
}

// MissingConfigs returns the hashes of node configurations that machines run and that are needed to
// judge them: others are wanted, and they are not in Kept.
func (in In) MissingConfigs() []string {
	var out []string
	for _, g := range in.Machines {
		for _, m := range g.Machines {
			h, want := in.running(m, health.NodeOf(m, in.Nodes)).Hash, hash(in.Wanted[m.Group].Config)
			if h != "" && want != "" && h != want && in.Kept[h] == nil && !slices.Contains(out, h) {
				out = append(out, h)
			}
		}
	}
	return out
}

// Concerns reports whether the desired state may show a reason against a machine; otherwise it need
// not be read for it. sure means that the platform reports all machines as outdated that it created
// with another configuration.
func (in In) Concerns(m platform.Machine, sure bool) bool {
	n := health.NodeOf(m, in.Nodes)
	runs, reported := reportedRunning(n)
	return m.Outdated && !in.isUnchanged(m, n) || m.Detached || needsUpdate(n) || reported && (!sure || len(runs.Files) > 0)
}

// OutdatedConfigs returns the hash of the node configuration with which the platform would create
// the outdated machines of a group, and the hashes that they run. It is empty if the platform does
// not report it, or if a machine reads manifests, which may also differ.
func (in In) OutdatedConfigs(group string) (want string, runs []string) {
	for _, g := range in.Machines {
		for _, m := range g.Machines {
			if m.Group != group {
				continue
			}
			has, would := in.running(m, health.NodeOf(m, in.Nodes)), in.Drifts[m.Name].Wanted
			switch {
			case len(has.Files) > 0:
				return "", nil
			case !m.Outdated && !m.Detached:
				continue
			case would == "" || want != "" && would != want:
				return "", nil
			}
			want = would
			if has.Hash != "" {
				runs = append(runs, has.Hash)
			}
		}
	}
	return want, runs
}

// isUnchanged reports whether the platform would create a machine with the configuration that it
// runs.
func (in In) isUnchanged(m platform.Machine, n *corev1.Node) bool {
	made := in.Drifts[m.Name]
	if slices.ContainsFunc(made.Changes, func(c platform.Change) bool { return c.Field == authority }) {
		return false // the authorities in the configuration decide
	}
	return made.Wanted != "" && made.Wanted == in.running(m, n).Hash
}

// files returns the manifests whose version on the machine differs from the store's. A machine that
// reports no manifests has none to compare.
func files(have, want map[string]string) []Reason {
	var out []Reason
	for _, key := range sorted(have, want) {
		_, wanted := want[key]
		if have[key] != want[key] && (wanted || strings.HasPrefix(key, layout.Manifests)) && len(have) > 0 && len(want) > 0 {
			out = append(out, Reason{key, have[key], want[key], Restart})
		}
	}
	return out
}

// reportedRunning returns what a node reports that its machine runs; there is false if it reports
// nothing readable.
func reportedRunning(n *corev1.Node) (r labels.Running, there bool) {
	if n == nil {
		return r, false
	}
	r, there, err := labels.Read[labels.Running](n.Annotations, labels.NodeConfig)
	return r, there && err == nil && r.Hash != ""
}

// needsUpdate reports whether the node has the annotation that requests another machine.
func needsUpdate(n *corev1.Node) bool {
	if n == nil {
		return false
	}
	_, there := n.Annotations[labels.NeedsUpdate]
	return there
}
