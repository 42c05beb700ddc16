package validate

import (
	"cmp"
	"fmt"

	"github.com/blang/semver/v4"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform/traits"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/spec/versions"
)

// Versions of Kubernetes that this kops supports.
const (
	// OldestKubernetes is the oldest supported version.
	OldestKubernetes = "1.32.0"
	// oldestRecommended is the oldest version whose support is not about to end.
	oldestRecommended = "1.34.0"
)

// Versions are the input of the guards on versions.
type Versions struct {
	// Kops is the version of this program.
	Kops string
	// Kubernetes is the version that the cluster should have.
	Kubernetes string
	// Stored is the version of kops that last changed the cluster, or "".
	Stored  string
	Channel *versions.Channel
	// New means that the cluster does not exist yet, so that its version is an option of the
	// command that describes it.
	New bool
	// AllowDowngrade lets an older kops change the cluster; RunObsolete permits versions that the
	// channel no longer allows; RunTooNew permits a Kubernetes that is newer than kops.
	AllowDowngrade, RunObsolete, RunTooNew bool
}

// Guard checks that this kops may build this Kubernetes. Advice is a warning.
func Guard(v Versions) diag.List {
	g := &guard{Versions: v}
	g.kops()
	g.kubernetes()
	return g.findings
}

type guard struct {
	Versions
	findings diag.List
}

func (g *guard) add(path, value, rule, message, remedy string, warning bool) {
	g.findings = append(g.findings, diag.Finding{Path: path, Value: value, Rule: rule, Message: message, Remedy: remedy, Warning: warning})
}

func (g *guard) kops() {
	own, err := versions.ParseVersion(g.Kops)
	if err != nil {
		return // a development build is not compared
	}
	recommended, required := g.Channel.Kops(g.Kops)
	switch {
	case isOlder(own, required) && !g.RunObsolete:
		g.add("kops", g.Kops, "kops-upgrade", "kops upgrade is required: the channel requires "+required, "install kops "+required+" or later, or set KOPS_RUN_OBSOLETE_VERSION=1", false)
	case isOlder(own, recommended):
		g.add("kops", g.Kops, "kops-recommended", "the channel recommends the newer kops "+recommended, "install kops "+recommended, true)
	}
	if isOlder(own, g.Stored) && !g.AllowDowngrade {
		g.add("kops", g.Kops, "kops-downgrade", "the cluster was last applied by the newer kops "+g.Stored, "install kops "+g.Stored+", or pass option:AllowDowngrade", false)
	}
}

func (g *guard) kubernetes() {
	path, upgrade, steps, raise := "spec.kubernetesVersion", ", kubernetes upgrade is required", "; an older kops upgrades step by step to 1.31, and kops upgrade cluster continues from there", "set spec.kubernetesVersion to it (kops edit cluster)"
	if g.New {
		path, upgrade, steps, raise = "option:KubernetesVersion", "", "", "use that version"
	}
	k, err := versions.ParseVersion(g.Kubernetes)
	if err != nil {
		return // validation of the spec reports it
	}
	if own, err := versions.ParseVersion(g.Kops); err == nil && !g.RunTooNew && versions.AtLeast(k, own.Major, own.Minor+1) {
		g.add(path, g.Kubernetes, "kubernetes-too-new", fmt.Sprintf("is not yet supported by kops %s", g.Kops),
			fmt.Sprintf("use Kubernetes %s, a newer kops, or set KOPS_RUN_TOO_NEW_VERSION=1", cmp.Or(g.Channel.NewClusterVersion(g.Kops), fmt.Sprint("1.", own.Minor))), false)
	}
	recommended, required := g.Channel.Kubernetes(g.Kubernetes)
	switch {
	case isOlder(k, OldestKubernetes):
		g.add(path, g.Kubernetes, "kubernetes-too-old", "is no longer supported"+upgrade, "use "+OldestKubernetes+" or later"+steps, false)
	case isOlder(k, required) && !g.RunObsolete:
		g.add(path, g.Kubernetes, "kubernetes-required", "kubernetes upgrade is required: the channel requires "+required, raise+", or set KOPS_RUN_OBSOLETE_VERSION=1", false)
	case isOlder(k, oldestRecommended):
		g.add(path, g.Kubernetes, "kubernetes-deprecated", "is deprecated and will lose support", "upgrade to "+oldestRecommended+" or later: kops upgrade cluster", true)
	case isOlder(k, recommended):
		g.add(path, g.Kubernetes, "kubernetes-recommended", "the channel recommends the newer version "+recommended, "upgrade to it: kops upgrade cluster", true)
	}
}

// isOlder reports whether v is older than a version; it is false if the text is not a version.
func isOlder(v semver.Version, than string) bool {
	o, err := versions.ParseVersion(than)
	return err == nil && v.LT(o)
}

// Gossip checks first of all that a cluster does not depend on gossip DNS.
func Gossip(cluster *api.Cluster) diag.List {
	c := newCheck(Input{Cluster: cluster})
	c.object, c.rule = api.KindCluster+"/"+cluster.Name, "gossip"
	gossip(c)
	for i := range c.findings { // an existing cluster needs its names until every machine was changed over
		c.findings[i].Remedy = "migrate the cluster with kOps 1.36 first: set spec.topology.dns.type to None, update, and replace every machine"
	}
	return c.findings
}

// Target checks that a platform supports a target: direct, terraform or dryrun.
func Target(t *traits.Traits, target string, features complete.Features) diag.List {
	var l diag.List
	needs := func(feature string) {
		if feature != "" && !features[feature] {
			l = append(l, diag.Finding{Path: "spec.cloudProvider", Value: string(t.Name), Rule: "experimental", Message: "is experimental", Remedy: "set KOPS_FEATURE_FLAGS=" + feature})
		}
	}
	needs(t.Feature)
	if target != "terraform" {
		return l
	}
	needs(t.Terraform.Feature)
	if t.Terraform.Never {
		l = append(l, diag.Finding{Path: "option:Target", Value: target, Rule: "target", Message: "is not supported on " + string(t.Name), Remedy: "use direct"})
	}
	return l
}

// SSHKeys checks how many SSH keys a cluster has.
func SSHKeys(c *api.Cluster, t *traits.Traits, count int) diag.List {
	message, remedy := "", ""
	switch k := t.SSHKeys; {
	case k.Most > 0 && count > k.Most:
		message, remedy = fmt.Sprintf("has %d SSH keys, but %s accepts only one", count, t.Name), "delete the others with kops delete sshpublickey"
	case k.Needed && count == 0 && !(k.NamedInstead && c.Spec.SSHKeyName != nil):
		message, remedy = fmt.Sprintf("has no SSH key, but %s needs one", t.Name), "add one with kops create sshpublickey"
	default:
		return nil
	}
	return diag.List{{Object: api.KindCluster + "/" + c.Name, Rule: "ssh-keys", Message: message, Remedy: remedy}}
}

// Secrets checks that the secrets that a spec refers to exist.
func Secrets(c *api.Cluster, has func(name string) bool) diag.List {
	var l diag.List
	need := func(on bool, path, secret string) {
		if on && !has(secret) {
			l = append(l, diag.Finding{
				Object: api.KindCluster + "/" + c.Name, Path: path, Rule: "secret-missing",
				Message: "could not find " + secret + " secret", Remedy: "store it with kops create secret " + secret + " " + c.Name + " -f FILE",
			})
		}
	}
	need(IsTrue(c.Spec.EncryptionConfig), "spec.encryptionConfig", "encryptionconfig")
	k := c.Spec.Networking.Cilium
	ipsec := k != nil && k.EnableEncryption && k.EncryptionType != api.CiliumEncryptionWireguard
	need(ipsec, "spec.networking.cilium.enableEncryption", "ciliumpassword")
	return l
}
