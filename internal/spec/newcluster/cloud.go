package newcluster

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform/traits"
	"kops.local/kops/internal/spec/diag"
)

// Platform is what describing a cluster knows of a platform.
type Platform struct {
	*traits.Traits
	Rules
}

// Rules are the rules of one platform. Each may be nil.
type Rules struct {
	// Options are those that exist on this platform alone.
	Options []Option
	// Defaults fills options before all others do.
	Defaults func(*Builder)
	// Describe says in the spec which platform it is, and what it asks.
	Describe func(*Builder)
	// Finish adds what follows from the rest of the spec.
	Finish func(*Builder)
	// Group completes a group that joins an existing cluster; if its findings are errors the group
	// must not be used.
	Group func(*api.InstanceGroup) diag.List
}

// Option is one of a platform's own; its value is a text, "true" for one that is on.
type Option struct {
	Name, Usage string
	Default     string
	Switch      bool
	// Feature is the switch that enables the option; "" if it needs none.
	Feature string
}

// PlatformOf guesses the platform of a new cluster from the URL of its state store.
// isSet says whether an environment variable is set; "" means that it must be named.
func PlatformOf(all []*traits.Traits, store string, isSet func(variable string) bool) api.CloudProviderID {
	scheme, _, _ := strings.Cut(store, "://")
	for _, t := range all {
		if v := t.Store.SchemesWith[scheme]; v != "" && isSet(v) {
			return t.Name
		}
	}
	for _, t := range all {
		if slices.Contains(t.Store.Schemes, scheme) {
			return t.Name
		}
	}
	return ""
}

// setPlatform begins the spec.
func (b *Builder) setPlatform() {
	b.Cluster = &api.Cluster{TypeMeta: typeMeta(api.KindCluster), ObjectMeta: metav1.ObjectMeta{Name: b.ClusterName}}
	b.Spec = &b.Cluster.Spec
	switch {
	case b.on.Describe != nil:
		b.on.Describe(b)
	case b.CloudProvider == "":
		b.Fail("option:CloudProvider", "", "the cloud is not known", "name it with option:CloudProvider")
	default:
		b.Fail("option:CloudProvider", b.CloudProvider, "unknown cloud", "use "+b.World.platforms())
	}
}

// platforms are the names of those that are known.
func (w World) platforms() string {
	if n := len(w.Platforms); n > 1 {
		return strings.Join(w.Platforms[:n-1], ", ") + " or " + w.Platforms[n-1]
	}
	return strings.Join(w.Platforms, "")
}

// NotEmpty is a pointer to the text, or nil when it is empty.
func NotEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
