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
)

// Input is what is checked.
type Input struct {
	Cluster *api.Cluster
	Groups  []*api.InstanceGroup
	// Platform is what the cluster stands on.
	Platform Platform
	// Strict says that the spec is completed, so that nothing needed may be empty.
	Strict bool
	// Facts are what the cloud knows; nil leaves out the checks that need them.
	Facts *facts.Facts
	// Features are the switches that are on.
	Features complete.Features
	// Endpoint is the server of buckets of S3, where they are not Amazon's.
	Endpoint string
	// Addons is the catalogue of add-ons; nil: this program's own.
	Addons *catalogue.Catalogue
}

// All checks the cluster, every group, and that together they make a cluster.
func All(in Input) diag.List {
	c := newCheck(in)
	c.runCluster()
	c.together()
	said := map[diag.Finding]bool{}
	for _, f := range c.findings {
		if !strings.HasPrefix(f.Object, api.KindInstanceGroup+"/") {
			said[anywhere(f)] = true
		}
	}
	for _, g := range in.Groups {
		c.runGroup(g)
	}
	// A completed group has the cluster's settings too; what is wrong with them has been said.
	return slices.DeleteFunc(c.findings, func(f diag.Finding) bool {
		return strings.HasPrefix(f.Object, api.KindInstanceGroup+"/") && said[anywhere(f)]
	})
}

// anywhere is a finding without the object that it is about, so that what a group
// has from its cluster is known again.
func anywhere(f diag.Finding) diag.Finding {
	f.Object = ""
	if rest, ok := strings.CutPrefix(f.Path, "spec.masterKubelet"); ok {
		f.Path = "spec.kubelet" + rest
	}
	return f
}

// Platform is what validation knows of a platform.
type Platform struct {
	*traits.Traits
	Rules
}

// Rules are the rules of one platform.
type Rules struct {
	Cluster []Rule
	Group   []GroupRule // which need the cluster
}

// Rule checks one thing of a cluster.
type Rule struct {
	Name string
	Do   func(*Check)
}

// GroupRule checks one thing of a group.
type GroupRule struct {
	Name string
	Do   func(*Check, *api.InstanceGroup)
}

// Check is the state of one validation.
type Check struct {
	// Cluster is empty when a group is checked without it; Spec is its spec.
	Cluster *api.Cluster
	Spec    *api.ClusterSpec
	// Facts are the facts of the cluster's platform; never nil.
	Facts *facts.Cloud

	in       Input
	on       Platform
	object   string
	rule     string
	findings diag.List
}

// Feature reports whether a switch is on.
func (c *Check) Feature(name string) bool { return c.in.Features[name] }

func newCheck(in Input) *Check {
	c := &Check{in: in, on: in.Platform, Cluster: in.Cluster}
	c.in.Addons = in.Addons.Or()
	if c.Cluster == nil {
		c.Cluster = &api.Cluster{}
	}
	c.Spec, c.Facts = &c.Cluster.Spec, in.Facts.Of(string(c.Cluster.CloudProviderID()))
	if c.on.Traits == nil {
		c.on.Traits = &traits.Traits{}
	}
	return c
}

func (c *Check) runCluster() {
	c.object = api.KindCluster + "/" + c.Cluster.Name
	for _, r := range clusterRules(c.on, c.in.Addons) {
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
	for _, r := range groupRules(c.on) {
		c.rule = r.Name
		r.Do(c, g)
	}
}

// Bad notes an error: what is wrong with the value at the path, and what to do.
func (c *Check) Bad(path, value, message, remedy string) {
	c.findings = append(c.findings, diag.Finding{Object: c.object, Path: path, Value: value, Rule: c.rule, Message: message, Remedy: remedy})
}

// Warn notes what is most likely wrong, and yet let pass.
func (c *Check) Warn(path, value, message, remedy string) {
	c.Bad(path, value, message, remedy)
	c.findings[len(c.findings)-1].Warning = true
}

// Required notes that something is missing.
func (c *Check) Required(path, remedy string) { c.Bad(path, "", "is required", remedy) }

// Need notes that something is missing when it is.
func (c *Check) Need(present bool, path, remedy string) {
	if !present {
		c.Required(path, remedy)
	}
}

// OneOf adds a finding if value is not one of those allowed; empty is allowed.
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

// Unique notes values that stand in a list twice.
func (c *Check) Unique(path string, values []string) {
	seen := map[string]bool{}
	for i, v := range values {
		if seen[v] && v != "" {
			c.Bad(At(path, i), v, "is listed twice", "remove one")
		}
		seen[v] = true
	}
}

// At is the path of an element of a list.
func At(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

// isTrue and isFalse report whether the user or a rule said so; nil is neither.
func isTrue(p *bool) bool  { return p != nil && *p }
func isFalse(p *bool) bool { return p != nil && !*p }

// text is what p points to, or "".
func text(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

// Number writes a number as it was written.
func Number[T ~int | ~int32 | ~int64](n T) string { return fmt.Sprint(int64(n)) }

// enums checks every field whose type lists its values in a tag `enum:"a|b"`.
func enums(c *Check, path string, v reflect.Value) {
	eachField(path, v, func(path string, f reflect.StructField, v reflect.Value) bool {
		values := f.Tag.Get("enum")
		if values != "" {
			checkEnum(c, path, v, strings.Split(values, "|"))
		}
		return values == ""
	})
}

func checkEnum(c *Check, path string, v reflect.Value, allowed []string) {
	kind, _, _ := strings.Cut(c.object, "/")
	path = compat.OlderPath(kind, path)
	switch v.Kind() {
	case reflect.String:
		c.OneOf(path, v.String(), allowed...)
	case reflect.Slice:
		for i := range v.Len() {
			c.OneOf(At(path, i), v.Index(i).String(), allowed...)
		}
	}
}

// title is the platform's name as messages write it.
func (c *Check) title() string { return cmp.Or(c.on.Title, "this cloud") }

// alone reports that a group is checked without its cluster, and so without a platform.
func (c *Check) alone() bool { return c.in.Cluster == nil }

// view is what the catalogue of add-ons sees of the cluster.
func (c *Check) view() *catalogue.View { return catalogue.ViewOf(c.Cluster, c.in.Groups, c.on.Traits) }

// broken notes that the catalogue of add-ons cannot say something of a value.
func (c *Check) broken(path string, err error) {
	if err != nil {
		c.Bad(path, "", "cannot be checked: "+err.Error(), "report this as a mistake in kops")
	}
}

// Groups are the cluster's.
func (c *Check) Groups() []*api.InstanceGroup { return c.in.Groups }

// Strict reports that the spec is completed.
func (c *Check) Strict() bool { return c.in.Strict }
