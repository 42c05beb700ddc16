// Package risk reports what in a plan deserves a second look before it is applied. It compares the
// objects as they were last applied with the wanted ones, and reads the plan. It is pure.
//
// A risk does not stop anything. What must not be done is rejected by validation and by guards.
package risk

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/finding"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/model/managedfile"
	"kops.local/kops/internal/spec/validate"
	"kops.local/kops/internal/spec/versions"
)

// In is the input of Of.
type In struct {
	// Applied is the cluster as it was last applied; nil before the first update.
	Applied *api.Cluster
	// AppliedGroups are the groups as they were last applied, by name; nil if they are not known.
	AppliedGroups map[string]*api.InstanceGroup
	// Issuer and NewIssuer are the issuers of service account tokens, as last applied and as wanted;
	// empty if they are not known.
	Issuer, NewIssuer string
	// Now is the wanted cluster; nil if it is being deleted.
	Now    *api.Cluster
	Groups []*api.InstanceGroup
	// NewEncryption means that machines run with an encryption configuration, and not with the wanted
	// one.
	NewEncryption bool
	// Unbounded means that the platform does not limit access, even where the objects name ranges.
	Unbounded bool
	Plan      *plan.Plan
	// Replaced is how many machines of each group the change has replaced, and Machines how many
	// each group has.
	Replaced, Machines map[string]int
}

// class is a kind of risk: its code, which programs may rely on, and how it is found.
type class struct {
	code string
	find func(in In) []finding.Finding
}

// classes returns all classes of risks, in the order in which they are shown.
func classes() []class {
	return []class{
		{"data-deleted", dataDeleted},
		{"group-removed", groupRemoved},
		{"keys-lost", keysLost},
		{"pod-network-changed", podNetworkChanged},
		{"kubernetes-downgraded", kubernetesDowngraded},
		{"issuer-changed", issuerChanged},
		{"api-name-removed", apiNameRemoved},
		{"issuer-refused", issuerRefused},
		{"audit-file-missing", auditFileMissing},
		{"audit-removed", auditRemoved},
		{"audit-changed", auditChanged},
		{"encryption-removed", encryptionRemoved},
		{"encryption-changed", encryptionChanged},
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

// Of lists the risks of a plan. Each finding's rule is the code of its class.
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

// deletionSteps lists the steps that delete something that holds machines of a group or, if
// machines is false, data.
func deletionSteps(p *plan.Plan, machines bool) []plan.Step {
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
	for _, s := range deletionSteps(in.Plan, false) {
		out = append(out, finding.Finding{Object: s.Address.String(), Message: s.Kind.Holds(s.Have) + " will be lost",
			Remedy: "take a backup first, if you need the data"})
	}
	return out
}

func groupRemoved(in In) (out []finding.Finding) {
	for _, s := range deletionSteps(in.Plan, true) {
		out = append(out, finding.Finding{Object: api.KindInstanceGroup + "/" + s.Kind.Group(s.Have),
			Message: "will be removed with " + s.Kind.Holds(s.Have), Remedy: "drain its nodes first, if pods must move without interruption"})
	}
	return out
}

// keysLost reports keysets that would be created, although the cluster had them when it was
// last applied.
func keysLost(in In) (out []finding.Finding) {
	if in.Applied == nil {
		return nil
	}
	had := pki.KeysetNames(in.Applied)
	for _, s := range in.Plan.Steps {
		if s.Op == plan.Create && s.Address.Kind == managedfile.Keyset.Name && slices.Contains(had, s.Address.Name) {
			out = append(out, finding.Finding{Object: s.Address.String(),
				Message: "is missing from the state store, and a new one would be created: running machines do not trust new keys",
				Remedy:  "put the file back from the versions of its bucket or a copy of the state store"})
		}
	}
	return out
}

func podNetworkChanged(in In) []finding.Finding {
	if in.Applied == nil || in.Now == nil {
		return nil
	}
	was, now := validate.PodNetworks(in.Applied), validate.PodNetworks(in.Now)
	if slices.Equal(was, now) {
		return nil
	}
	return []finding.Finding{{Path: "spec.networking",
		Message: fmt.Sprintf("the pod network changes from %s to %s: pods on old and new machines cannot reach each other until every machine is replaced",
			strings.Join(was, ", "), strings.Join(now, ", ")),
		Remedy: "create a new cluster and move to it, or plan for an outage"}}
}

func kubernetesDowngraded(in In) []finding.Finding {
	if in.Applied == nil || in.Now == nil {
		return nil
	}
	was, err := versions.ParseVersion(in.Applied.Spec.KubernetesVersion)
	now, nerr := versions.ParseVersion(in.Now.Spec.KubernetesVersion)
	if err != nil || nerr != nil || !now.LT(was) {
		return nil
	}
	return []finding.Finding{{Path: "spec.kubernetesVersion",
		Message: fmt.Sprintf("Kubernetes is downgraded from %s to %s, which is not supported: objects may be lost", was, now),
		Remedy:  "keep " + was.String() + ", or restore an etcd backup that the older version wrote"}}
}

func issuerChanged(in In) []finding.Finding {
	if in.Issuer == "" || in.NewIssuer == "" || in.Issuer == in.NewIssuer {
		return nil
	}
	f := finding.Finding{Path: "spec.kubeAPIServer.serviceAccountIssuer",
		Message: fmt.Sprintf("the issuer of service account tokens changes from %s to %s: tokens of running pods are refused once the control plane is replaced, and roles of the cloud that trust the old issuer no longer apply", in.Issuer, in.NewIssuer),
		Remedy:  "keep the issuer: set spec.kubeAPIServer.serviceAccountIssuer to " + in.Issuer + ", or add it to spec.kubeAPIServer.additionalServiceAccountIssuers until all pods have new tokens"}
	if s := in.Now.Spec.KubeAPIServer; s != nil && slices.Contains(s.AdditionalServiceAccountIssuers, in.Issuer) {
		f.Message = fmt.Sprintf("the issuer of service account tokens changes from %s to %s: roles of the cloud that trust the old issuer no longer apply", in.Issuer, in.NewIssuer)
		f.Remedy = "let the roles trust the new issuer, too"
	}
	return []finding.Finding{f}
}

func apiNameRemoved(in In) []finding.Finding {
	if in.Applied == nil || in.Now == nil {
		return nil
	}
	names := func(c *api.Cluster) []string {
		return append(slices.Clone(c.Spec.API.AdditionalSANs), c.Spec.API.PublicName)
	}
	now := names(in.Now)
	gone := slices.DeleteFunc(names(in.Applied), func(n string) bool {
		return n == "" || slices.Contains(now, n) || in.Now.Spec.API.PublicName == "" && n == in.Applied.Spec.API.PublicName
	})
	if len(gone) == 0 {
		return nil
	}
	return []finding.Finding{{Path: "spec.api.additionalSANs",
		Message: "the certificate of the API server loses the names " + strings.Join(gone, ", ") + ": clients that use them no longer connect",
		Remedy:  "keep them in spec.additionalSans"}}
}

// issuerRefused reports further issuers whose tokens API servers would no longer accept.
func issuerRefused(in In) []finding.Finding {
	if in.Applied == nil || in.Now == nil {
		return nil
	}
	further := func(c *api.Cluster) []string {
		if s := c.Spec.KubeAPIServer; s != nil {
			return s.AdditionalServiceAccountIssuers
		}
		return nil
	}
	now := append(slices.Clone(further(in.Now)), in.NewIssuer)
	gone := slices.DeleteFunc(slices.Clone(further(in.Applied)), func(i string) bool { return slices.Contains(now, i) })
	if len(gone) == 0 {
		return nil
	}
	return []finding.Finding{{Path: "spec.kubeAPIServer.additionalServiceAccountIssuers", Message: "API servers no longer accept tokens of the issuers " + strings.Join(gone, ", "),
		Remedy: "keep them until no pod has such a token"}}
}

// encrypts reports whether API servers encrypt stored objects.
func encrypts(c *api.Cluster) bool {
	return c != nil && c.Spec.EncryptionConfig != nil && *c.Spec.EncryptionConfig
}

// encryptionChanged reports another encryption configuration. Only the hash of the one that machines
// run with is known, so that the keys of both cannot be compared.
func encryptionChanged(in In) []finding.Finding {
	if !in.NewEncryption || !encrypts(in.Applied) || !encrypts(in.Now) {
		return nil
	}
	return []finding.Finding{{Path: "spec.encryptionConfig", Message: "the secret encryptionconfig differs from the one that API servers run with: they can no longer read objects whose key it lacks",
		Remedy: "keep every key in it until all objects are written again; kops rotate encryption does this"}}
}

func encryptionRemoved(in In) []finding.Finding {
	if in.Now == nil || !encrypts(in.Applied) || encrypts(in.Now) {
		return nil
	}
	return []finding.Finding{{Path: "spec.encryptionConfig", Message: "API servers no longer get the keys of encrypted objects, and cannot read them: Secrets are lost to all who use them",
		Remedy: "first add the provider identity to the front of the encryption configuration, and write every Secret again"}}
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
	f := finding.Finding{Message: fmt.Sprintf("%d of %d control plane machines must be replaced", replaced, machines)}
	if machines < 3 {
		f.Message += "; the API does not answer meanwhile"
		f.Remedy = "choose a time when the API is not needed; a control plane with 3 machines stays available"
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
	return newlyOpen(in, "spec.kubernetesApiAccess", "the API", func(c *api.Cluster) []string { return c.Spec.API.Access })
}

func sshOpen(in In) []finding.Finding {
	return newlyOpen(in, "spec.sshAccess", "SSH on the machines", func(c *api.Cluster) []string { return c.Spec.SSHAccess })
}

// newlyOpen reports ranges of a list that are newly open to the world.
func newlyOpen(in In, path, what string, list func(*api.Cluster) []string) []finding.Finding {
	if in.Now == nil || in.Unbounded {
		return nil
	}
	var before []string
	if in.Applied != nil {
		before = worlds(list(in.Applied))
	}
	now := slices.DeleteFunc(worlds(list(in.Now)), func(r string) bool { return slices.Contains(before, r) })
	if len(now) == 0 {
		return nil
	}
	return []finding.Finding{{Path: path, Message: what + " is open to everyone: " + strings.Join(now, ", "), Remedy: "restrict it to the CIDRs that need it"}}
}

// worlds returns the ranges that contain at least half of all public addresses.
func worlds(ranges []string) (out []string) {
	for _, r := range ranges {
		p, err := netip.ParsePrefix(r)
		if err == nil && (p.Addr().Is4() && p.Bits() <= 1 || p.Addr().Is6() && p.Bits() <= 3) {
			out = append(out, r)
		}
	}
	return out
}
