// Package risk says what in a plan deserves a second look before it is carried out. It
// compares the objects as they were applied last with those that are wanted, and reads
// the plan. It is pure.
//
// A risk stops nothing. What must not be done is refused by validation and by guards.
package risk

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/finding"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/spec/validate"
	"kops.local/kops/internal/spec/versions"
)

// In is what risks are looked for in.
type In struct {
	// Was is the cluster as it was applied last; nil before the first update.
	Was *api.Cluster
	// Now is the cluster as it is wanted; nil where it is deleted.
	Now    *api.Cluster
	Groups []*api.InstanceGroup
	// Unbounded says that the platform does not limit access, even where the objects name ranges.
	Unbounded bool
	Plan      *plan.Plan
	// Replaced are how many machines of each group the change has replaced, and Machines
	// how many each has.
	Replaced, Machines map[string]int
}

// class is a kind of risk: its code, which programs may rely on, and how it is found.
type class struct {
	code string
	find func(in In) []finding.Finding
}

// classes are all kinds of risks, in the order in which they are shown.
func classes() []class {
	return []class{
		{"data-deleted", dataDeleted},
		{"group-removed", groupRemoved},
		{"pod-network-changed", podNetworkChanged},
		{"kubernetes-downgraded", kubernetesDowngraded},
		{"control-plane-replaced", controlPlaneReplaced},
		{"api-open", apiOpen},
		{"ssh-open", sshOpen},
	}
}

// Codes lists the codes of all classes.
func Codes() (out []string) {
	for _, c := range classes() {
		out = append(out, c.code)
	}
	return out
}

// Of lists the risks of a plan. The rule of each is the code of its class.
func Of(in In) finding.List {
	var out finding.List
	for _, c := range classes() {
		for _, f := range c.find(in) {
			f.Rule, f.Warning = c.code, true
			if f.Object == "" && in.Now != nil {
				f.Object = api.Name(in.Now)
			}
			out = append(out, f)
		}
	}
	return out
}

// deleted lists the steps that delete something which holds machines of a group or, without
// machines, data.
func deleted(p *plan.Plan, machines bool) []plan.Step {
	replaced := map[any]bool{}
	for _, s := range p.Steps {
		if s.Replaces {
			replaced[s.Have] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(p.Steps), func(s plan.Step) bool {
		return s.Op != plan.Delete || replaced[s.Have] || s.Kind.Holds(s.Have) == "" || (s.Kind.Group(s.Have) != "") != machines
	})
}

func dataDeleted(in In) (out []finding.Finding) {
	for _, s := range deleted(in.Plan, false) {
		out = append(out, finding.Finding{Object: s.Address.String(), Message: s.Kind.Holds(s.Have) + " will be lost",
			Remedy: "take a backup first, if you need the data"})
	}
	return out
}

func groupRemoved(in In) (out []finding.Finding) {
	for _, s := range deleted(in.Plan, true) {
		out = append(out, finding.Finding{Object: api.KindInstanceGroup + "/" + s.Kind.Group(s.Have),
			Message: "will be removed with " + s.Kind.Holds(s.Have), Remedy: "drain its nodes first, if pods must move without interruption"})
	}
	return out
}

func podNetworkChanged(in In) []finding.Finding {
	if in.Was == nil || in.Now == nil {
		return nil
	}
	was, now := validate.PodNetworks(in.Was), validate.PodNetworks(in.Now)
	if slices.Equal(was, now) {
		return nil
	}
	return []finding.Finding{{Path: "spec.networking",
		Message: fmt.Sprintf("the pod network changes from %s to %s: pods of old and new machines do not reach each other until every machine is replaced",
			strings.Join(was, ", "), strings.Join(now, ", ")),
		Remedy: "create a new cluster and move to it, or plan for an outage"}}
}

func kubernetesDowngraded(in In) []finding.Finding {
	if in.Was == nil || in.Now == nil {
		return nil
	}
	was, err := versions.ParseVersion(in.Was.Spec.KubernetesVersion)
	now, nerr := versions.ParseVersion(in.Now.Spec.KubernetesVersion)
	if err != nil || nerr != nil || !now.LT(was) {
		return nil
	}
	return []finding.Finding{{Path: "spec.kubernetesVersion",
		Message: fmt.Sprintf("Kubernetes goes back from %s to %s, which it does not support: objects may be lost", was, now),
		Remedy:  "keep " + was.String() + ", or restore an etcd backup that the older version wrote"}}
}

func controlPlaneReplaced(in In) (out []finding.Finding) {
	replaced, machines := 0, 0
	for _, g := range in.Groups {
		if g.IsControlPlane() {
			replaced, machines = replaced+in.Replaced[g.Name], machines+in.Machines[g.Name]
		}
	}
	if replaced == 0 {
		return nil
	}
	f := finding.Finding{Message: fmt.Sprintf("%d of %d machines of the control plane have to be replaced", replaced, machines)}
	if machines < 3 {
		f.Message += "; the API does not answer meanwhile"
		f.Remedy = "choose a time when the API is not needed; a control plane of 3 machines keeps answering"
	}
	return []finding.Finding{f}
}

func apiOpen(in In) []finding.Finding {
	if in.Now == nil {
		return nil
	}
	if lb := in.Now.Spec.API.LoadBalancer; lb != nil && lb.Type == api.LoadBalancerInternal {
		return nil
	}
	return opened(in, "spec.kubernetesApiAccess", "the API", func(c *api.Cluster) []string { return c.Spec.API.Access })
}

func sshOpen(in In) []finding.Finding {
	return opened(in, "spec.sshAccess", "SSH on the machines", func(c *api.Cluster) []string { return c.Spec.SSHAccess })
}

// opened reports ranges of a list that newly admit everybody.
func opened(in In, path, what string, list func(*api.Cluster) []string) []finding.Finding {
	if in.Now == nil || in.Unbounded {
		return nil
	}
	var before []string
	if in.Was != nil {
		before = worlds(list(in.Was))
	}
	now := slices.DeleteFunc(worlds(list(in.Now)), func(r string) bool { return slices.Contains(before, r) })
	if len(now) == 0 {
		return nil
	}
	return []finding.Finding{{Path: path, Message: what + " is open to everyone: " + strings.Join(now, ", "), Remedy: "restrict it to the CIDRs that need it"}}
}

// worlds returns the ranges that admit half of all public addresses or more.
func worlds(ranges []string) (out []string) {
	for _, r := range ranges {
		p, err := netip.ParsePrefix(r)
		if err == nil && (p.Addr().Is4() && p.Bits() <= 1 || p.Addr().Is6() && p.Bits() <= 3) {
			out = append(out, r)
		}
	}
	return out
}
