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
	// Made is the platform's report on machines, by their names.
	Made map[string]platform.Made
	// Nodes are the cluster's nodes; none while its API server cannot be asked.
	Nodes []corev1.Node
	// Wanted is what machines are to run, by the name of their group.
	Wanted map[string]Wanted
	// Applied is the current configuration of groups for which the platform would make the same
	// machines again, if it differs from Wanted: the difference is then a plan not carried out
	// yet.
	Applied map[string]Applied
	// Kept are node configurations of the past, by their hashes.
	Kept map[string][]byte
	// InPlace says that machines are changed, and never replaced.
	InPlace bool
}

// Wanted is what the machines of a group are to run.
type Wanted struct {
	// Config is their node configuration; empty when it is not known.
	Config []byte
	// Files are digests (labels.Digest) of the manifests that they read from the store, by
	// key below the cluster's folder.
	Files map[string]string
	// Changes are what a plan that is not carried out yet will make otherwise; Touched says
	// that it changes what the platform makes the machines of.
	Changes []platform.Change
	Touched bool
}

// Applied is what machines run, as for Wanted.
type Applied struct {
	Config []byte
	Files  map[string]string
}

// Hash is the hash of the node configuration; "" if it is not known.
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
	Detached    = "its group no longer counts it"
	Unexplained = "the platform would create it differently"
	Unjoined    = "it has not joined the cluster"
)

// Judge says of each machine what it is behind in, in the order of the groups and of
// their machines.
func Judge(in In) []Machine {
	groups := map[string]*api.InstanceGroup{}
	for _, g := range in.Groups {
		groups[g.Name] = g
	}
	told := map[[2]string][]Reason{}
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
			j.Reasons = in.reasons(m, n, told)
			for i, r := range j.Reasons {
				if in.InPlace {
					j.Reasons[i].Effect = min(r.Effect, Restart)
				}
				j.Effect = max(j.Effect, j.Reasons[i].Effect)
			}
			if n == nil && len(in.Nodes) > 0 && !in.InPlace && j.Effect == Restart { // only a node can be told to restart
				j.Effect, j.Reasons = Replace, slices.Insert(j.Reasons, 0, Reason{Field: Unjoined, Effect: Replace})
			}
			out = append(out, j)
		}
	}
	return out
}

// reasons are all differences of one machine, the greatest first. What a machine was made
// of stops counting where its node tells that it runs something else meanwhile. told has
// the differences of configurations by their hashes: most machines run the same ones.
func (in In) reasons(m platform.Machine, n *corev1.Node, told map[[2]string][]Reason) []Reason {
	want, made := in.Wanted[m.Group], in.Made[m.Name]
	var out []Reason
	for _, c := range merged(made.Changes, want.Changes) {
		if c.Field == authority && namesAuthorities(want.Config) {
			continue // whatever the machine was started with, it goes by its configuration
		}
		out = with(out, Reason{c.Field, c.Have, c.Want, effects.OfAny(c.Field)})
	}
	runs, wanted := in.runs(m, n), hash(want.Config)
	if runs.Hash != "" && wanted != "" && runs.Hash != wanted {
		pair := [2]string{runs.Hash, wanted}
		if told[pair] == nil {
			told[pair] = differences(in.Kept[runs.Hash], want.Config, runs.Hash, wanted)
		}
		for _, r := range told[pair] {
			out = with(out, r)
		}
	}
	out = append(out, files(runs.Files, want.Files)...)
	if annotated(n) {
		out = append(out, Reason{Field: Annotated, Effect: Replace})
	}
	if m.Detached {
		out = append(out, Reason{Field: Detached, Effect: Replace})
	}
	mended := made.Config != "" && made.Config != runs.Hash && runs.Hash == cmp.Or(wanted, made.Wanted) // which is not read where it tells no reason
	if len(out) == 0 && (want.Touched || m.Outdated && !mended) {
		out = append(out, Reason{Field: Unexplained, Effect: Replace})
	}
	slices.SortStableFunc(out, func(a, b Reason) int { return cmp.Compare(b.Effect, a.Effect) })
	return out
}

// merged returns the changes from what a machine was made of to a plan: the platform, where it
// knows, says what the machine has, not the spec that was applied last. A
// field that the plan sets back to what the machine has is not a change.
func merged(made, plan []platform.Change) []platform.Change {
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

// namesAuthorities reports whether a configuration says which authorities of the cluster the
// machine believes.
func namesAuthorities(config []byte) bool {
	c, err := nodeconfig.Parse(config)
	return err == nil && c.CAs[pki.KubernetesCA] != ""
}

// with adds a reason, unless the field has one.
func with(all []Reason, r Reason) []Reason {
	if slices.ContainsFunc(all, func(x Reason) bool { return x.Field == r.Field }) {
		return all
	}
	return append(all, r)
}

// runs is what a machine runs: what its node tells, or what the platform made it of.
func (in In) runs(m platform.Machine, n *corev1.Node) labels.Running {
	if r, told := running(n); told {
		return r
	}
	if made := in.Made[m.Name].Config; made != "" {
		return labels.Running{Hash: made}
	}
	if a, ok := in.Applied[m.Group]; ok && !m.Outdated {
		return labels.Running{Hash: a.Hash(), Files: a.Files}
	}
	return labels.Running{}
}

// InUse are the hashes of the node configurations that machines run.
func (in In) InUse() []string {
	out := []string{}
	for _, g := range in.Machines {
		for _, m := range g.Machines {
			if h := in.runs(m, health.NodeOf(m, in.Nodes)).Hash; h != "" && !slices.Contains(out, h) {
				out = append(out, h)
			}
		}
	}
	return out
}

// Lacking are the hashes of the node configurations that machines run, and that are
// needed to judge them: others are wanted, and they are not among Kept.
func (in In) Lacking() []string {
	var out []string
	for _, g := range in.Machines {
		for _, m := range g.Machines {
			h, want := in.runs(m, health.NodeOf(m, in.Nodes)).Hash, hash(in.Wanted[m.Group].Config)
			if h != "" && want != "" && h != want && in.Kept[h] == nil && !slices.Contains(out, h) {
				out = append(out, h)
			}
		}
	}
	return out
}

// Concerns reports whether the desired state may show a reason against a machine; otherwise
// it need not be read for it. sure says that the platform calls all
// machines outdated that it made of another configuration.
func (in In) Concerns(m platform.Machine, sure bool) bool {
	n := health.NodeOf(m, in.Nodes)
	runs, told := running(n)
	return m.Outdated && !in.alike(m, n) || m.Detached || annotated(n) || told && (!sure || len(runs.Files) > 0)
}

// Told returns the hash of the node configuration with which the platform would make the outdated
// machines of a group, and the hashes that they run. It is empty if the platform does not report
// it, and if a machine reads manifests, which may differ, too.
func (in In) Told(group string) (want string, runs []string) {
	for _, g := range in.Machines {
		for _, m := range g.Machines {
			if m.Group != group {
				continue
			}
			has, would := in.runs(m, health.NodeOf(m, in.Nodes)), in.Made[m.Name].Wanted
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

// alike reports that the platform would make a machine with the configuration that it runs.
func (in In) alike(m platform.Machine, n *corev1.Node) bool {
	made := in.Made[m.Name]
	if slices.ContainsFunc(made.Changes, func(c platform.Change) bool { return c.Field == authority }) {
		return false // what the configuration says of authorities decides
	}
	return made.Wanted != "" && made.Wanted == in.runs(m, n).Hash
}

// files returns the manifests of which a machine runs another version than the store has. A
// machine that reports no manifests has none to compare.
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

// running is what a node tells that its machine runs; there is false where it tells nothing
// that can be read.
func running(n *corev1.Node) (r labels.Running, there bool) {
	if n == nil {
		return r, false
	}
	r, there, err := labels.Read[labels.Running](n.Annotations, labels.NodeConfig)
	return r, there && err == nil && r.Hash != ""
}

// annotated reports whether somebody asks for another machine.
func annotated(n *corev1.Node) bool {
	if n == nil {
		return false
	}
	_, there := n.Annotations[labels.NeedsUpdate]
	return there
}
