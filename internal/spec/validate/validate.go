package validate

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/api/compat"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/spec/facts"
)

// Input is what is checked.
type Input struct {
	Cluster *api.Cluster
	Groups  []*api.InstanceGroup
	// Strict says that the spec is completed, so that nothing needed may be empty.
	Strict bool
	// Facts are what the cloud knows; nil leaves out the checks that need them.
	Facts *facts.Facts
	// Features are the switches that are on.
	Features complete.Features
}

// All checks the cluster, every group, and that together they make a cluster.
func All(in Input) diag.List {
	c := newCheck(in)
	c.runCluster()
	c.together()
	said := map[diag.Finding]bool{}
	for _, f := range c.findings {
		said[anywhere(f)] = true
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

// rule checks one thing of a cluster.
type rule struct {
	name string
	do   func(*check)
}

// groupRule checks one thing of a group. Those with a cloud need the cluster.
type groupRule struct {
	name string
	on   api.CloudProviderID
	do   func(*check, *api.InstanceGroup)
}

// check is the state of one validation.
type check struct {
	in       Input
	cluster  *api.Cluster
	spec     *api.ClusterSpec
	cloud    api.CloudProviderID
	object   string
	rule     string
	findings diag.List
}

func newCheck(in Input) *check {
	c := &check{in: in, cluster: in.Cluster}
	if c.cluster == nil {
		c.cluster = &api.Cluster{}
	}
	c.spec, c.cloud = &c.cluster.Spec, c.cluster.CloudProviderID()
	return c
}

func (c *check) runCluster() {
	c.object = api.KindCluster + "/" + c.cluster.Name
	for _, r := range clusterRules() {
		c.rule = r.name
		r.do(c)
	}
	c.dropInherited()
}

// dropInherited leaves out what is wrong with the control plane's kubelet because
// it is wrong with all kubelets.
func (c *check) dropInherited() {
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

func (c *check) runGroup(g *api.InstanceGroup) {
	c.object = api.KindInstanceGroup + "/" + g.Name
	for _, r := range groupRules() {
		if r.on == "" || r.on == c.cloud {
			c.rule = r.name
			r.do(c, g)
		}
	}
}

// bad notes an error: what is wrong with the value at the path, and what to do.
func (c *check) bad(path, value, message, remedy string) {
	c.findings = append(c.findings, diag.Finding{Object: c.object, Path: path, Value: value, Rule: c.rule, Message: message, Remedy: remedy})
}

// warn notes what is most likely wrong, and yet let pass.
func (c *check) warn(path, value, message, remedy string) {
	c.bad(path, value, message, remedy)
	c.findings[len(c.findings)-1].Warning = true
}

// required notes that something is missing.
func (c *check) required(path, remedy string) { c.bad(path, "", "is required", remedy) }

// need notes that something is missing when it is.
func (c *check) need(present bool, path, remedy string) {
	if !present {
		c.required(path, remedy)
	}
}

// oneOf notes a value that is none of those allowed; empty is allowed.
func (c *check) oneOf(path, value string, allowed ...string) {
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
	c.bad(path, value, "is not supported", remedy)
}

// unique notes values that stand in a list twice.
func (c *check) unique(path string, values []string) {
	seen := map[string]bool{}
	for i, v := range values {
		if seen[v] && v != "" {
			c.bad(at(path, i), v, "is there twice", "remove one")
		}
		seen[v] = true
	}
}

// at is the path of an element of a list.
func at(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

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

// number writes a number as it was written.
func number[T ~int | ~int32 | ~int64](n T) string { return fmt.Sprint(int64(n)) }

// enums checks every field whose type lists its values in a tag `enum:"a|b"`.
func enums(c *check, path string, v reflect.Value) {
	eachField(path, v, func(path string, f reflect.StructField, v reflect.Value) bool {
		values := f.Tag.Get("enum")
		if values != "" {
			checkEnum(c, path, v, strings.Split(values, "|"))
		}
		return values == ""
	})
}

func checkEnum(c *check, path string, v reflect.Value, allowed []string) {
	kind, _, _ := strings.Cut(c.object, "/")
	path = compat.OlderPath(kind, path)
	switch v.Kind() {
	case reflect.String:
		c.oneOf(path, v.String(), allowed...)
	case reflect.Slice:
		for i := range v.Len() {
			c.oneOf(at(path, i), v.Index(i).String(), allowed...)
		}
	}
}
