package newcluster

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform/traits"
	"kops.local/kops/internal/spec/diag"
)

// Platform is what package newcluster needs to know about a platform.
type Platform struct {
	*traits.Traits
	Rules
}

// Rules are the rules of one platform. Each may be nil.
type Rules struct {
	// Options are specific to this platform.
	Options []Option
	// Defaults fills in options before all others do.
	Defaults func(*Builder)
	// Describe sets the platform and its settings in the spec.
	Describe func(*Builder)
	// Finish adds what follows from the rest of the spec.
	Finish func(*Builder)
	// Group completes a group that is added to an existing cluster; if some findings are errors,
	// the group must not be used.
	Group func(*api.InstanceGroup) diag.List
}

// Option is a platform's own option; its value is a text, "true" if it is on.
type Option struct {
	Name, Usage string
	Default     string
	Switch      bool
	// Feature is the feature flag that enables the option; "" if it needs none.
	Feature string
}

// PlatformOf guesses the platform of a new cluster from the URL of its state store. isSet reports
// whether an environment variable is set; if the result is "", the user must name the platform.
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
	case b.platform.Describe != nil:
		b.platform.Describe(b)
	case b.CloudProvider == "":
		b.Fail("option:CloudProvider", "", "the cloud is unknown", "specify it with option:CloudProvider")
	default:
		b.Fail("option:CloudProvider", b.CloudProvider, "unknown cloud", "use "+diag.Or(b.World.Platforms))
	}
}

// NotEmpty returns a pointer to the text, or nil if it is empty.
func NotEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
