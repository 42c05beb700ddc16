package compat

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/internal/test/kubetest"
)

var rewrite = flag.Bool("update", false, "rewrite the definitions in api/crd")

// kept are the kinds that an API server can store.
var kept = []string{api.KindCluster, api.KindInstanceGroup, api.KindKeyset, api.KindSSHCredential, api.KindHost}

// TestDefinitionsAreOfTheSchema compares the checked-in definitions with the schema.
func TestDefinitionsAreOfTheSchema(t *testing.T) {
	for _, version := range []string{api.V1Alpha2, api.V1Alpha3} {
		for _, kind := range kept {
			text, err := yaml.Marshal(definition(t, kind, version))
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("..", "crd", version, strings.ToLower(kind)+"s.yaml")
			if *rewrite {
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, text, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if checked, err := os.ReadFile(file); err != nil || string(checked) != string(text) {
				t.Errorf("%s is not of the schema (%v): run go test ./api/compat -update", file, err)
			}
		}
	}
	for _, bad := range [][2]string{{api.KindChannel, api.V1Alpha2}, {api.KindCluster, "v1"}} {
		if _, err := Definition(bad[0], bad[1]); err == nil {
			t.Errorf("%v has a definition", bad)
		}
	}
}

func definition(t *testing.T, kind, version string) *unstructured.Unstructured {
	t.Helper()
	d, err := Definition(kind, version)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestAnAPIServerKeepsTheObjects defines the kinds on a real API server, in either version,
// and has it store the objects of testdata.
func TestAnAPIServerKeepsTheObjects(t *testing.T) {
	config := kubetest.Start(t)
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("testdata/inputs/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in testdata/inputs: %v", err)
	}
	namespaces := kubernetes.NewForConfigOrDie(config).CoreV1().Namespaces()
	for _, file := range files {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespaceOf(file)}}
		if _, err := namespaces.Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, version := range []string{api.V1Alpha2, api.V1Alpha3} {
		t.Run(version, func(t *testing.T) {
			definitions := client.Resource(runtimeschema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
			for _, kind := range kept {
				d := definition(t, kind, version)
				if _, err := definitions.Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				await(t, d.GetName(), func() bool { return established(t, definitions, d.GetName()) })
				defer deleteKind(t, definitions, d.GetName())
			}
			for _, file := range files {
				t.Run(filepath.Base(file), func(t *testing.T) { keepObjects(t, client, version, file) })
			}
			if version == api.V1Alpha3 {
				t.Run("typed", func(t *testing.T) { keepTyped(t, config, namespaceOf(files[0])) })
			}
		})
	}
}

// namespaceOf returns the namespace in which the objects of a file are stored.
func namespaceOf(file string) string {
	return strings.NewReplacer("_", "-", ".yaml", "").Replace(filepath.Base(file))
}

// established reports whether an API server serves a kind.
func established(t *testing.T, definitions dynamic.ResourceInterface, name string) bool {
	t.Helper()
	d, err := definitions.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	conditions, _, _ := unstructured.NestedSlice(d.Object, "status", "conditions") // initially missing
	for _, c := range conditions {
		c := c.(map[string]any)
		switch {
		case c["type"] == "NonStructuralSchema" && c["status"] == "True":
			t.Fatalf("%s: %v", name, c["message"])
		case c["type"] == "Established" && c["status"] == "True":
			return true
		}
	}
	return false
}

// deleteKind deletes a kind with all its objects.
func deleteKind(t *testing.T, definitions dynamic.ResourceInterface, name string) {
	t.Helper()
	ctx := t.Context()
	if err := definitions.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
		return
	}
	await(t, name+" to be gone", func() bool { _, err := definitions.Get(ctx, name, metav1.GetOptions{}); return err != nil })
}

// await waits until a condition holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// keepObjects has an API server store the objects of a file, and reads them back.
func keepObjects(t *testing.T, client dynamic.Interface, version, file string) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	objects, _, err := Decode(data, Options{File: file})
	if err != nil {
		t.Fatal(err)
	}
	var back []byte
	for i, o := range objects {
		doc, err := EncodeJSON(version, o)
		if err != nil {
			t.Fatal(err)
		}
		sent := &unstructured.Unstructured{}
		if err := sent.UnmarshalJSON(doc); err != nil {
			t.Fatal(err)
		}
		kind := runtimeschema.GroupVersionResource{Group: api.Group, Version: version, Resource: strings.ToLower(sent.GetKind()) + "s"}
		strict := metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}
		got, err := client.Resource(kind).Namespace(namespaceOf(file)).Create(t.Context(), sent, strict)
		if err != nil {
			t.Fatal(err)
		}
		own, err := plain(got).MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			back = append(back, separator...)
		}
		back = append(back, own...)
		o.SetCreationTimestamp(metav1.Time{}) // the server sets another
	}
	sameObjects(t, objects, back)
}

// plain removes from an object what an API server adds.
func plain(o *unstructured.Unstructured) *unstructured.Unstructured {
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "namespace"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	return o
}

// keepTyped has an API server store a Go struct, using a client that knows only the types.
func keepTyped(t *testing.T, config *rest.Config, namespace string) {
	scheme := runtime.NewScheme()
	if err := api.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := rest.CopyConfig(config)
	c.APIPath, c.GroupVersion = "/apis", &runtimeschema.GroupVersion{Group: api.Group, Version: api.V1Alpha3}
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(c)
	if err != nil {
		t.Fatal(err)
	}
	hosts := client.Post().Namespace(namespace).Resource("hosts")
	want := api.HostSpec{PublicKey: "key", InstanceGroup: "nodes", PodCIDRs: []string{"10.0.0.0/24"}}
	if err := hosts.Body(&api.Host{ObjectMeta: metav1.ObjectMeta{Name: "h"}, Spec: want}).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	var got api.List[api.Host]
	if err := client.Get().Namespace(namespace).Resource("hosts").Do(t.Context()).Into(&got); err != nil {
		t.Fatal(err)
	}
	if len(got.Items) != 1 || got.Items[0].Name != "h" || cmp.Diff(want, got.Items[0].Spec) != "" {
		t.Errorf("the server keeps %+v", got.Items)
	}
}
