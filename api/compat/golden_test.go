package compat

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/internal/test/goldentest"
)

// TestInputsSurviveReadingAndWriting reads every file of testdata, and of the folder
// with all of kOps' inputs if it exists, and writes it as v1alpha2: nothing may be lost
// or added. Files that kOps itself wrote must be reproduced byte for byte.
func TestInputsSurviveReadingAndWriting(t *testing.T) {
	few, err := filepath.Glob("testdata/inputs/*.yaml")
	if err != nil || len(few) == 0 {
		t.Fatalf("no files in testdata/inputs: %v", err)
	}
	for _, file := range slices.Concat(few, goldens(t)) {
		t.Run(filepath.Base(filepath.Dir(file))+"/"+filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			objects, _, err := Decode(data, Options{File: file})
			if err != nil {
				t.Fatal(err)
			}
			written, err := Encode(api.V1Alpha2, objects...)
			if err != nil {
				t.Fatal(err)
			}
			if writtenByUser(file) {
				sameMeaning(t, data, written)
			} else if diff := cmp.Diff(string(data), string(written)); diff != "" {
				t.Errorf("written (+) differs from read (-):\n%s", diff)
			}
			sameObjects(t, objects, written)
			newer, err := Encode(api.V1Alpha3, objects...)
			if err != nil {
				t.Fatal(err)
			}
			sameObjects(t, objects, newer)
		})
	}
}

// writtenByUser distinguishes users' files from those that kOps wrote.
func writtenByUser(file string) bool {
	name := filepath.Base(file)
	if filepath.Base(filepath.Dir(file)) == "inputs" {
		return !strings.HasPrefix(name, "written-")
	}
	return strings.HasPrefix(name, "in-")
}

// goldens returns the inputs and outputs of kOps' own tests, which are outside of
// the repository.
func goldens(t *testing.T) []string {
	root := goldentest.Root()
	var files []string
	for _, pattern := range []string{
		"create_cluster/*/expected-v1alpha2.yaml",
		"update_cluster/*/in-*.yaml",
		"update_cluster/*/data/*cluster-completed.spec_content",
	} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		t.Logf("NOT RUN on all inputs of kOps: none in %s; set KOPS_GOLDENS to their folder", root)
	}
	return files
}

// sameObjects reads the written text and compares the objects.
func sameObjects(t *testing.T, objects []api.Object, written []byte) {
	t.Helper()
	again, _, err := Decode(written, Options{})
	if err != nil {
		t.Fatalf("%v\n%s", err, written)
	}
	if diff := cmp.Diff(objects, again); diff != "" {
		t.Errorf("read again (+) differs from first reading (-):\n%s", diff)
	}
}

// sameMeaning compares a user's text, made explicit, with the written one.
func sameMeaning(t *testing.T, read, written []byte) {
	t.Helper()
	want := documentsOf(t, read)
	for _, doc := range want {
		explicit(doc)
	}
	sameText := cmp.FilterValues(func(a, b any) bool { return isScalar(a) && isScalar(b) }, cmp.Comparer(sameScalar))
	if diff := cmp.Diff(want, documentsOf(t, written), sameText); diff != "" {
		t.Errorf("written (+) differs from read (-):\n%s", diff)
	}
}

// documentsOf returns the documents of a file, parsed without the code under test.
func documentsOf(t *testing.T, data []byte) []map[string]any {
	t.Helper()
	var out []map[string]any
	for _, text := range strings.Split("\n"+string(data), "\n---") {
		var doc map[string]any
		if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
			t.Fatal(err)
		}
		if doc != nil {
			out = append(out, doc)
		}
	}
	return out
}

// explicit makes the changes to a v1alpha2 document that reading is supposed to make.
func explicit(doc map[string]any) {
	doc["apiVersion"] = strings.Replace(doc["apiVersion"].(string), "kops/", "kops.k8s.io/", 1)
	if doc["kind"] != "Cluster" {
		return
	}
	spec := doc["spec"].(map[string]any)
	if spec["containerRuntime"] == "containerd" {
		delete(spec, "containerRuntime") // the only runtime there is
	}
	if !hasValue(spec, "topology.dns.type") {
		setValue(spec, "topology.dns.type", "Public")
	}
	if !hasValue(spec, "authorization") {
		setValue(spec, "authorization.rbac", map[string]any{})
	}
	if hasValue(spec, "iam") {
		setValue(spec, "iam.legacy", false)
	}
	delete(spec, "masterInternalName")
	delete(spec, "serviceOIDCProvider")
	delete(spec, "openstackServiceAccount")
	if spec["cloudProvider"] != string(api.CloudGCE) {
		delete(spec, "project")
	} else if !hasValue(spec, "cloudConfig") {
		setValue(spec, "cloudConfig", map[string]any{}) // as kOps writes it
	}
	if driver, ok := nested(spec, "cloudConfig", "awsEBSCSIDriver"); ok && driver["enabled"] == true {
		delete(driver, "enabled")
	}
}

func isScalar(v any) bool {
	switch v.(type) {
	case string, bool, float64:
		return true
	}
	return false
}

// sameScalar compares two scalars as text, quantities or durations.
func sameScalar(a, b any) bool {
	if a == b {
		return true
	}
	textA, textB := fmt.Sprint(a), fmt.Sprint(b)
	if x, err := time.ParseDuration(textA); err == nil {
		y, err := time.ParseDuration(textB)
		return err == nil && x == y
	}
	x, errA := resource.ParseQuantity(textA)
	y, errB := resource.ParseQuantity(textB)
	return errA == nil && errB == nil && x.Cmp(y) == 0
}

// nested returns a map inside of maps.
func nested(m map[string]any, keys ...string) (map[string]any, bool) {
	for _, key := range keys {
		inner, ok := m[key].(map[string]any)
		if !ok {
			return nil, false
		}
		m = inner
	}
	return m, true
}
