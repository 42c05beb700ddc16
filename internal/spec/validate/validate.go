package validate

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/api/compat"
	"kops.local/kops/internal/platform/traits"
	"kops.local/kops/internal/spec/catalogue"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/fields"
)

// Input is the input of validation.
type Input struct {
	Cluster *api.Cluster
	Groups  []*api.InstanceGroup
	// Platform is the cluster's platform.
	Platform Platform
	// Strict means that the spec is completed, so that no required field may be empty.
	Strict bool
	// Facts are the results of look-ups; nil skips the checks that need them.
	Facts *facts.Facts
	// Features are the feature flags that are on.
	Features complete.Features
	// Endpoint is the server of S3 buckets, if it is not Amazon's.
	Endpoint string
	// Addons is the catalogue of add-ons; nil means this program's own.
	Addons *catalogue.Catalogue
}

// All checks the cluster, every group, and that they fit together.
func All(in Input) diag.List {
	c := newCheck(in)
	c.runCluster()
	c.checkTogether()
	said := map[diag.Finding]bool{}
	for _, f := range c.findings {
		if !strings.HasPrefix(f.Object, api.KindInstanceGroup+"/") {
			said[anywhere(f)] = true
		}
	}
	for _, g := range in.Groups {
		c.runGroup(g)
	}
	// A completed group also has the cluster's settings; their problems were already reported.
	return slices.DeleteFunc(c.findings, func(f diag.Finding) bool {
		return strings.HasPrefix(f.Object, api.KindInstanceGroup+"/") && said[anywhere(f)]
	})
}

// anywhere returns a finding without its object, in order to recognize what a group has inherited
// from its cluster.
func anywhere(f diag.Finding) diag.Finding {
	f.Object = ""
	if rest, ok := strings.CutPrefix(f.Path, "spec.masterKubelet"); ok {
		f.Path = "spec.kubelet" + rest
	}
	return f
}

// Platform is what validation needs to know about a platform.
type Platform struct {
	*traits.Traits
	Rules
}

// Rules are the rules of one platform.
type Rules struct {
	Cluster []Rule
	Group   []GroupRule // these need the cluster
}

// Rule checks one aspect of a cluster.
type Rule struct {
	Name string
	Do   func(*Check)
}

// GroupRule checks one aspect of a group.
type GroupRule struct {
	Name string
	Do   func(*Check, *api.InstanceGroup)
}

// Check is the state of one validation.
type Check struct {
	// Cluster is empty if a group is checked without it; Spec is its spec.
	Cluster *api.Cluster
	Spec    *api.ClusterSpec
	// Facts are the facts of the cluster's platform; never nil.
	Facts *facts.Cloud

	input    Input
	platform Platform
	object   string
	rule     string
	findings diag.List
}

// Feature reports whether a feature flag is on.
func (c *Check) Feature(name string) bool { return c.input.Features[name] }

func newCheck(in Input) *Check {
	c := &Check{input: in, platform: in.Platform, Cluster: in.Cluster}
	c.input.Addons = in.Addons.Or()
	if c.Cluster == nil {
		c.Cluster = &api.Cluster{}
	}
	c.Spec, c.Facts = &c.Cluster.Spec, in.Facts.Of(string(c.Cluster.CloudProviderID()))
	if c.platform.Traits == nil {
		c.platform.Traits = &traits.Traits{}
	}
	return c
}

func (c *Check) runCluster() {
	c.object = api.KindCluster + "/" + c.Cluster.Name
	for _, r := range clusterRules(c.platform, c.input.Addons) {
		c.rule = r.Name
		r.Do(c)
	}
	c.dropInherited()
}

// dropInherited drops findings about the control plane's kubelet that are already
// reported for all kubelets.
func (c *Check) dropInherited() {
	all := map[diag.Finding]bool{}
	for _, f := range c.findings {
		if strings.HasPrefix(f.Path, "spec.kubelet.") {
			all[anywhere(f)] = true
		}
	}
	c.findings = slices.DeleteFunc(c.findings, func(f diag.Finding) bool {
		return strings.HasPrefix(f.Path, "spec.masterKubelet.") && all[anywhere(f)]
	})
}

func (c *Check) runGroup(g *api.InstanceGroup) {
	c.object = api.KindInstanceGroup + "/" + g.Name
	for _, r := range groupRules(c.platform) {
		c.rule = r.Name
		r.Do(c, g)
	}
}

// Bad records an error: what is wrong with the value at the path, and what to do.
func (c *Check) Bad(path, value, message, remedy string) {
	c.findings = append(c.findings, diag.Finding{Object: c.object, Path: path, Value: value, Rule: c.rule, Message: message, Remedy: remedy})
}

// Warn records what is most likely wrong, and yet permitted.
func (c *Check) Warn(path, value, message, remedy string) {
	c.Bad(path, value, message, remedy)
	c.findings[len(c.findings)-1].Warning = true
}

// Required records that something is missing.
func (c *Check) Required(path, remedy string) { c.Bad(path, "", "is required", remedy) }

// Need records that something is missing, unless it is present.
func (c *Check) Need(present bool, path, remedy string) {
	if !present {
		c.Required(path, remedy)
	}
}

// OneOf adds a finding if value is not one of the allowed values; empty is allowed.
func (c *Check) OneOf(path, value string, allowed ...string) {
	if value == "" || slices.Contains(allowed, value) {
		return
	}
	remedy := "use " + strings.Join(allowed, ", ")
	if i := strings.LastIndex(remedy, ", "); i > 0 {
		remedy = remedy[:i] + " or " + remedy[i+2:]
	}
	if near := diag.Nearest(value, allowed); near != "" {
		remedy = "did you mean " + near + "? " + remedy
	}
	c.Bad(path, value, "is not supported", remedy)
}

// Unique records values that occur twice in a list.
func (c *Check) Unique(path string, values []string) {
	seen := map[string]bool{}
	for i, v := range values {
		if seen[v] && v != "" {
			c.Bad(At(path, i), v, "is listed twice", "remove one of them")
		}
		seen[v] = true
	}
}

// At returns the path of an element of a list.
func At(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

// IsTrue and IsFalse report whether the user or a rule set the value; nil is neither.
func IsTrue(p *bool) bool  { return p != nil && *p }
func IsFalse(p *bool) bool { return p != nil && !*p }

// text returns what p points to, or "".
func text(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

// Number formats a number.
func Number[T ~int | ~int32 | ~int64](n T) string { return fmt.Sprint(int64(n)) }

// enums checks every field whose type lists its values in a tag `enum:"a|b"`.
func enums(c *Check, path string, v reflect.Value) {
	fields.Each(path, v, func(path string, f reflect.StructField, v reflect.Value) bool {
		values := f.Tag.Get("enum")
		if values != "" {
			checkEnum(c, path, v, strings.Split(values, "|"))
		}
		return values == ""
	})
}

func checkEnum(c *Check, path string, v reflect.Value, allowed []string) {
	path = c.older(path)
	switch v.Kind() {
	case reflect.String:
		c.OneOf(path, v.String(), allowed...)
	case reflect.Slice:
		for i := range v.Len() {
			c.OneOf(At(path, i), v.Index(i).String(), allowed...)
		}
	}
}

// older returns the path of v1alpha2 for a path in the object that is checked.
func (c *Check) older(path string) string {
	kind, _, _ := strings.Cut(c.object, "/")
	return compat.OlderPath(kind, path)
}

// title returns the platform's name for messages.
func (c *Check) title() string { return cmp.Or(c.platform.Title, "this cloud") }

// isAlone reports whether a group is checked without its cluster, and so without a platform.
func (c *Check) isAlone() bool { return c.input.Cluster == nil }

// view returns the view of the cluster for the catalogue of add-ons.
func (c *Check) view() *catalogue.View {
	return catalogue.ViewOf(c.Cluster, c.input.Groups, c.platform.Traits)
}

// broken records that the catalogue of add-ons could not evaluate a value.
func (c *Check) broken(path string, err error) {
	if err != nil {
		c.Bad(path, "", "cannot be checked: "+err.Error(), "this is a bug in kops; please report it")
	}
}

// Groups returns the cluster's groups.
func (c *Check) Groups() []*api.InstanceGroup { return c.input.Groups }

// Strict reports whether the spec is completed.
func (c *Check) Strict() bool { return c.input.Strict }
