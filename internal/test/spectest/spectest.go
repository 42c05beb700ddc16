// Package spectest provides the specs that tests start from: read from a file, changed by
// assignments, with the facts and the channel that complete them.
//
// It is for tests only, and must not know how a spec is used.
package spectest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/api/compat"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/newcluster"
	"kops.local/kops/internal/spec/versions"
	"kops.local/kops/internal/test/goldentest"
)

// Read decodes a cluster with its groups like those of a store. The data must contain a cluster.
func Read(t testing.TB, data []byte) (*api.Cluster, []*api.InstanceGroup) {
	t.Helper()
	objects, _, err := compat.Decode(data, compat.Options{Lenient: true})
	if err != nil {
		t.Fatal(err)
	}
	cluster, groups := Sort(objects)
	if cluster == nil {
		t.Fatal("the file has no cluster")
	}
	return cluster, groups
}

// Sort returns the last cluster among objects, nil if there is none, and the groups.
func Sort(objects []api.Object) (cluster *api.Cluster, groups []*api.InstanceGroup) {
	for _, o := range objects {
		switch x := o.(type) {
		case *api.Cluster:
			cluster = x
		case *api.InstanceGroup:
			groups = append(groups, x)
		}
	}
	return cluster, groups
}

// Facts reads the file facts.yaml of a folder.
func Facts(t testing.TB, dir string) *facts.Facts {
	t.Helper()
	f, err := facts.Parse(goldentest.Read(t, dir, "facts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Stable returns the default channel of clusters.
func Stable(t testing.TB) *versions.Channel {
	t.Helper()
	c, ok := versions.Embedded(versions.Stable)
	if !ok {
		t.Fatal("the channel stable is not embedded")
	}
	return c
}

// Assign returns a changed copy of an object. A change is an assignment,
// spec.path=value, or a path with a leading minus, which is unset.
func Assign[T api.Object](t testing.TB, o T, changes []string) T {
	t.Helper()
	var sets, unsets []string
	for _, s := range changes {
		if path, ok := strings.CutPrefix(s, "-"); ok {
			unsets = append(unsets, path)
		} else {
			sets = append(sets, s)
		}
	}
	out, wrong := newcluster.Assign(o, sets, unsets)
	if err := wrong.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// ValueAt returns the value at a path of a document, nil if there is none. Keys are separated by
// dots; indices, and keys that contain dots, are in brackets.
func ValueAt(doc any, path string) any {
	path = strings.NewReplacer("[", "\x00", "]", "").Replace(path)
	for _, part := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == 0 }) {
		switch v := doc.(type) {
		case map[string]any:
			doc = v[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i >= len(v) {
				return nil
			}
			doc = v[i]
		default:
			return nil
		}
	}
	return doc
}

// Options reads the options of a golden, in which the options of one cloud are mixed with the others.
func Options(t testing.TB, data []byte) newcluster.Options {
	t.Helper()
	var all map[string]any
	if err := yaml.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	own := map[string]string{}
	for field, name := range map[string]string{
		"Project": "project", "GCEServiceAccount": "gce-service-account", "OpenstackExternalNet": "os-ext-net", "OpenstackExternalSubnet": "os-ext-subnet",
		"OpenstackDNSServers": "os-dns-servers", "OpenstackLBSubnet": "os-lb-floating-subnet", "OpenstackLBOctavia": "os-octavia",
		"OpenstackOctaviaProvider": "os-octavia-provider", "OpenstackNetworkID": "os-network", "OpenstackStorageIgnoreAZ": "os-kubelet-ignore-az",
	} {
		if v, ok := all[field]; ok {
			own[name] = fmt.Sprint(v)
			delete(all, field)
		}
	}
	all["Own"] = own
	var o newcluster.Options
	text, err := yaml.Marshal(all)
	if err == nil {
		err = yaml.UnmarshalStrict(text, &o)
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}
