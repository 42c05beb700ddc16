package providers_test

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/api/compat"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model"
	"kops.local/kops/internal/model/managedfile"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/providers"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/newcluster"
	"kops.local/kops/internal/spec/validate"
	"kops.local/kops/internal/store/onstore"
	"kops.local/kops/internal/store/open/user"
	"kops.local/kops/internal/test/spectest"
	"kops.local/kops/internal/test/testkeys"
	"kops.local/kops/internal/test/turns"
)

// trial describes the clusters of a platform in which the fields are tried.
type trial struct {
	// Facts is a file of facts next to the specs' tests; Own are facts to use instead.
	Facts string       `json:"facts"`
	Own   *facts.Cloud `json:"own"`
	// Options describe the base cluster.
	Options newcluster.Options `json:"options"`
	// Variants are other clusters.
	Variants []variant `json:"variants"`
	// Values are the values of fields that accept no others.
	Values map[string]any `json:"values"`
	// Silent are fields without effect or finding, and why that is right.
	Silent map[string]string `json:"silent"`
}

// variant is a cluster that differs from the base cluster: with other options, or with additions to
// its spec and its groups' specs, in v1alpha3.
type variant struct {
	Options        *newcluster.Options `json:"options"`
	Cluster, Group json.RawMessage
}

// TestEveryFieldHasAnEffect sets every field of a spec, one at a time, for each platform that creates
// machines: either the resources of the cluster change, or a finding names the field.
func TestEveryFieldHasAnEffect(t *testing.T) {
	data, err := os.ReadFile("testdata/fields.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var trials map[string]trial
	if err := yaml.UnmarshalStrict(data, &trials); err != nil {
		t.Fatal(err)
	}
	for _, p := range providers.All(platform.World{}) {
		if p.Declare.Model == nil {
			continue
		}
		t.Run(string(p.Name), func(t *testing.T) {
			t.Parallel()
			c, ok := trials[string(p.Name)]
			if !ok {
				t.Fatal("testdata/fields.yaml has no cluster of the platform")
			}
			h := &fieldTrial{T: t, on: p, silent: c.Silent, values: c.Values, mine: turns.ItemsOfTurn(t, 9)}
			h.prepare(c)
			h.walk(api.KindCluster, "spec", reflect.TypeFor[api.ClusterSpec](), nil)
			h.walk(api.KindInstanceGroup, "spec", reflect.TypeFor[api.InstanceGroupSpec](), nil)
			for path := range c.Silent {
				if h.mine(path) && !slices.Contains(h.silentPaths, path) {
					t.Errorf("%s is heard of, and testdata/fields.yaml says that it is not", path)
				}
			}
			if h.fields < 500 {
				t.Errorf("the specs have only %d fields", h.fields)
			}
		})
	}
}

// fieldTrial is the trial of a platform.
type fieldTrial struct {
	*testing.T
	on          platform.Provider
	known       *facts.Facts
	keysets     map[string]*pki.Keyset
	clusters    []*triedCluster
	silent      map[string]string
	values      map[string]any
	silentPaths []string
	fields      int
	mine        func(path string) bool // whether a field is tried in this run
}

// triedCluster is a cluster, and its outcomes with empty blocks around a field, by block.
type triedCluster struct {
	cluster *api.Cluster
	groups  []*api.InstanceGroup
	blocks  map[string]outcome
}

// outcome is the result of completing, checking and modelling a cluster.
type outcome struct {
	sum      uint64
	findings diag.List
	err      error
}

func (h *fieldTrial) prepare(c trial) {
	h.Helper()
	name := string(h.on.Name)
	if h.known = (&facts.Facts{Clouds: map[string]*facts.Cloud{name: c.Own}}); c.Own == nil {
		h.known = spectest.Facts(h, c.Facts)
	}
	if h.known.FileHashes == nil {
		h.known.FileHashes = map[string]string{}
	}
	if c.Own != nil && c.Own.Bundle != "" { // it has all images
		h.known.ImageDigests = map[string]string{"*": "sha256:" + strings.Repeat("0", 64)}
	}
	for _, v := range append([]variant{{}}, c.Variants...) {
		if v.Options == nil {
			v.Options = &c.Options
		}
		h.clusters = append(h.clusters, h.cluster(v))
	}
}

func (h *fieldTrial) cluster(v variant) *triedCluster {
	h.Helper()
	o := *v.Options
	o.CloudProvider, o.ClusterName = string(h.on.Name), cmp.Or(o.ClusterName, "a.k8s.local")
	cluster, groups, findings := newcluster.New(o, newcluster.World{Platform: h.on.ForNew(), Complete: h.on.ForComplete(), Facts: h.known, Channel: spectest.Stable(h), KopsVersion: version})
	if err := findings.Err(); err != nil {
		h.Fatal(err)
	}
	release := "https://dl.k8s.io/release/v" + cluster.Spec.KubernetesVersion + "/bin/linux/amd64/"
	for _, url := range []string{"https://kops.internal/binaries/kops/" + version + "/linux/amd64/nodeup", release + "kubelet", release + "kubectl"} {
		h.known.FileHashes[url] = strings.Repeat("0", 64)
	}
	h.merge(v.Cluster, &cluster.Spec)
	for _, g := range groups {
		h.merge(v.Group, &g.Spec)
	}
	c := &triedCluster{cluster: cluster, groups: groups, blocks: map[string]outcome{}}
	if got := h.outcome(c); got.err != nil {
		h.Fatalf("a cluster with %s and %s: %v", v.Cluster, v.Group, got.err)
	}
	return c
}

func (h *fieldTrial) merge(more json.RawMessage, spec any) {
	h.Helper()
	if len(more) == 0 {
		return
	}
	d := json.NewDecoder(bytes.NewReader(more))
	d.DisallowUnknownFields()
	if err := d.Decode(spec); err != nil {
		h.Fatal(err)
	}
}

const version = "1.37.0"

// step is the index of a field in its struct.
type step int

// walk tries the fields of a struct, recursively. Blocks of other platforms are rejected by a
// separate rule.
func (h *fieldTrial) walk(kind, path string, t reflect.Type, above []step) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if h.on.Name != api.CloudAWS && f.Tag.Get("flag") != "" {
			continue // a component has it on every platform
		}
		if !f.IsExported() || name == "" || name == "-" || path == "spec.cloudProvider" && name != string(h.on.Name) {
			continue
		}
		at, in, e := path+"."+name, append(slices.Clone(above), step(i)), f.Type
		for e.Kind() == reflect.Pointer || e.Kind() == reflect.Slice && e.Elem().Kind() != reflect.Uint8 {
			if e.Kind() == reflect.Slice {
				at += "[]"
			}
			e = e.Elem()
		}
		if e.Kind() == reflect.Struct && strings.HasPrefix(e.PkgPath(), "kops.local/") {
			h.walk(kind, at, e, in)
			continue
		}
		h.fields++
		if !h.mine(at) {
			continue
		}
		if why, ok := h.isRead(kind, at, in, h.candidates(at, f)); !ok {
			h.silentPaths = append(h.silentPaths, at)
			if h.silent[at] == "" {
				h.Errorf("%s: %s is accepted, and changes nothing%s", kind, at, why)
			}
		}
	}
}

// isRead reports whether one of the clusters changes when the field is set, or a finding names the
// field, or every value is rejected. A rejection of one value does not count, unless there are no
// other values.
func (h *fieldTrial) isRead(kind, path string, in []step, try candidates) (why string, ok bool) {
	block := kind + path[:strings.LastIndex(path, ".")]
	if try.without != nil {
		block = kind + path
	}
	var accepted, refused bool
	for _, c := range h.clusters {
		base, ok := c.blocks[block]
		if !ok {
			base = h.outcome(c.with(kind, in, try.without))
			c.blocks[block] = base
		}
		for _, value := range try.values {
			changed := c.with(kind, in, value)
			if told := (outcome{findings: validate.NoEffect(&h.on.Traits, changed.cluster, changed.groups)}).findingFor(kind, path); told != nil {
				return "", true
			}
			got := h.outcome(changed)
			switch told := got.findingFor(kind, path); {
			case told != nil && (told.Warning || try.all), told == nil && base.err == nil && got.err != nil,
				base.err == nil && got.err == nil && got.sum != base.sum:
				return "", true
			case told != nil, got.err != nil && got.findingFor(kind, path[:strings.LastIndex(path, ".")]+".enabled") != nil:
				refused = true // a finding on the field, its block or the switch of its block; one on another missing field proves nothing
			case got.err == nil:
				accepted = true
			default:
				why = "; even without it: " + got.err.Error()
			}
		}
	}
	return why, refused && !accepted
}

// candidates are values to try for a field; a rule may accept only one of them.
type candidates struct {
	values []any
	// all: the field accepts no other values.
	all bool
	// without is the field's value in the cluster that serves as the baseline.
	without any
}

func (h *fieldTrial) candidates(path string, f reflect.StructField) candidates {
	t := f.Type
	for !reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) && (t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map) {
		t = t.Elem()
	}
	v, given := h.values[path]
	enum := f.Tag.Get("enum")
	switch kind := t.Kind(); {
	case given:
		return candidates{values: []any{v}}
	case enum != "":
		c := candidates{all: true}
		for v := range strings.SplitSeq(enum, "|") {
			c.values = append(c.values, v)
		}
		return c
	case kind == reflect.Bool && f.Name == "Enabled":
		return candidates{values: []any{true}, all: true, without: false}
	case kind == reflect.Bool:
		return candidates{values: []any{true, false}, all: true}
	case kind == reflect.Float64:
		return candidates{values: []any{0.77}}
	case kind == reflect.String:
		return candidates{values: []any{"x77"}}
	case kind == reflect.Struct:
		return candidates{values: []any{"77h", "77", 77}} // a duration, a quantity, a number or a string
	}
	return candidates{values: []any{77}}
}

var indices = regexp.MustCompile(`\[[^\]]*\]`)

// findingFor returns a finding that names the field, something in it or its block, preferring warnings;
// nil when there is none.
func (o outcome) findingFor(kind, path string) (found *diag.Finding) {
	field := indices.ReplaceAllString(compat.OlderPath(kind, path), "")
	for i, f := range o.findings {
		told := indices.ReplaceAllString(f.Path, "")
		if told == field || told != "spec" && strings.HasPrefix(field, told+".") || strings.HasPrefix(told, field+".") {
			if found = &o.findings[i]; f.Warning {
				break
			}
		}
	}
	return found
}

// with returns a copy of the cluster with the blocks around a field and, unless value is nil, the
// field set to value.
func (c *triedCluster) with(kind string, in []step, value any) *triedCluster {
	out := &triedCluster{cluster: c.cluster.DeepCopy()}
	for _, g := range c.groups {
		out.groups = append(out.groups, g.DeepCopy())
	}
	if kind == api.KindCluster {
		set(reflect.ValueOf(&out.cluster.Spec), in, value)
		return out
	}
	for _, g := range out.groups {
		set(reflect.ValueOf(&g.Spec), in, value)
	}
	return out
}

// set sets the field at the end of a path. Blocks on the way are created, and enabled where
// possible.
func set(v reflect.Value, in []step, value any) {
	for len(in) > 0 && v.Kind() != reflect.Struct {
		switch {
		case v.Kind() == reflect.Slice && v.Len() == 0:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		case v.Kind() == reflect.Slice:
			v = v.Index(0)
		case v.IsNil():
			v.Set(reflect.New(v.Type().Elem()))
			if on := v.Elem().FieldByName("Enabled"); on.IsValid() {
				assign(on, true)
			}
		default:
			v = v.Elem()
		}
	}
	switch {
	case len(in) > 0:
		set(v.Field(int(in[0])), in[1:], value)
	case value != nil:
		assign(v, value)
	}
}

// assign sets a field to a value; a list or a map gets one item.
func assign(v reflect.Value, value any) {
	if u, ok := v.Addr().Interface().(json.Unmarshaler); ok { // a duration, a quantity, a number or a string
		text, err := json.Marshal(value)
		if err == nil {
			_ = u.UnmarshalJSON(text) // if it fails, another candidate succeeds
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		assign(v.Elem(), value)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		assign(v.Index(0), value)
	case reflect.Map:
		k, e := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		assign(k, "x77")
		assign(e, value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(k, e)
	case reflect.Struct:
		assign(v.Field(0), value)
	case reflect.Interface:
		v.Set(reflect.ValueOf(value))
	default:
		if r := reflect.ValueOf(value); r.CanConvert(v.Type()) {
			v.Set(r.Convert(v.Type()))
		}
	}
}

// outcome completes, checks and models a cluster.
func (h *fieldTrial) outcome(c *triedCluster) outcome {
	done, findings := complete.Complete(complete.Input{Platform: h.on.ForComplete(), Cluster: c.cluster, Groups: c.groups, Facts: h.known, Channel: spectest.Stable(h), KopsVersion: version})
	if err := findings.Err(); err != nil {
		return outcome{findings: findings, err: err}
	}
	found := validate.All(validate.Input{Platform: h.on.ForValidate(), Cluster: done.Spec, Groups: done.Groups, Strict: true, Facts: h.known})
	findings = append(findings, found...)
	if err := found.Err(); err != nil {
		return outcome{findings: findings, err: err}
	}
	sum, found, err := h.model(done)
	return outcome{sum: sum, findings: append(findings, found...), err: err}
}

// model returns a hash of everything that makes up a cluster, except what merely repeats its spec.
func (h *fieldTrial) model(done *complete.Cluster) (uint64, diag.List, error) {
	in := model.Input{Traits: &h.on.Traits, Cluster: done.Spec, Groups: done.Groups, NodeVersion: done.NodeVersion, Version: version, Region: "us-test-1", Facts: h.known, AllowUnverified: true,
		Buckets: onstore.Buckets(user.Backends(func(string) string { return "" }, http.DefaultClient))}
	issuer := pki.Issuer{Rand: rand.Reader, Now: time.Now, Generate: testkeys.Source()}
	var errs [3]error
	h.keysets, _, errs[0] = pki.Ensure(h.keysets, pki.KeysetNames(done.Spec), issuer)
	in.Keysets = h.keysets
	in.EncryptionConfig, errs[1] = pki.NewEncryptionConfig(strings.NewReader(strings.Repeat("0", 64)))
	if in, errs[2] = in.Shared(); errors.Join(errs[:]...) != nil {
		return 0, nil, errors.Join(errs[:]...)
	}
	nodes, findings, err := model.Build(in)
	if err != nil {
		return 0, findings, err
	}
	g := &graph.Graph{}
	if err := g.Add(nodes...); err != nil {
		return 0, findings, err
	}
	err = h.on.Declare.Model(platform.Model{Cluster: done.Spec, Groups: done.Groups, Facts: h.known, SSHKeys: []string{"ssh-ed25519 AAAA"}, FilesBucket: "b", FilesRegion: "us-test-1",
		UserData: func(group *api.InstanceGroup, hosts ...resource.Value) (resource.Content, error) {
			return model.UserData(in, group, hosts...)
		},
		Script: func(group *api.InstanceGroup, host resource.Value) (resource.Node, error) {
			return model.Script(in, group, host, nil)
		}}, g)
	sum := fnv.New64a()
	for n := range g.All() {
		if n.Address.Kind != managedfile.Keyset.Name && !strings.Contains(n.Name, "completed") {
			_, _ = fmt.Fprint(sum, n.Address) // a hash never fails
			add(sum, reflect.ValueOf(n.Want))
		}
	}
	return sum.Sum64(), findings, err
}

// add adds a value to a hash, with everything reachable from it.
func add(sum io.Writer, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			_, _ = fmt.Fprint(sum, "&") // the struct may have no fields
			add(sum, v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			add(sum, v.Field(i))
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			add(sum, v.Index(i))
		}
		_, _ = fmt.Fprint(sum, v.Len())
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, k := range keys {
			add(sum, k)
			add(sum, v.MapIndex(k))
		}
	case reflect.Func, reflect.Chan:
	default:
		_, _ = fmt.Fprintf(sum, "%v;", v)
	}
}
