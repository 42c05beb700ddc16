package dump

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"

	"kops.local/kops/api"
)

var update = flag.Bool("update", false, "rewrite testdata/kept.txt")

// telling matches the names of fields that may hold a secret.
var telling = regexp.MustCompile(`(?i)(ur[li]|host|prox|mirror|endpoint|server|repositor|address|args|command|attributes|password|secret|token|credential|header|key$|content|config|script|data|env|value|annotations|parameters|options|extra|user)`)

// TestFieldsThatAreHandedOn holds the list of fields which are handed on although their names
// are telling. A new field of the API or of Kubernetes fails it, until somebody has decided:
// clear it in redact.go, or add it to the list with -update, as it only names something.
func TestFieldsThatAreHandedOn(t *testing.T) {
	var kept []string
	types := map[reflect.Type]bool{}
	for _, o := range []any{api.Cluster{}, api.InstanceGroup{}, corev1.Node{}, corev1.Namespace{}, corev1.Pod{}, corev1.Event{}, corev1.Service{}, corev1.ConfigMap{},
		corev1.Secret{}, corev1.PersistentVolume{}, corev1.PersistentVolumeClaim{}, appsv1.Deployment{}, appsv1.DaemonSet{}, appsv1.StatefulSet{}, batchv1.Job{},
		policyv1.PodDisruptionBudget{}, discoveryv1.EndpointSlice{}, coordinationv1.Lease{}, storagev1.StorageClass{},
		admissionv1.MutatingWebhookConfiguration{}, admissionv1.ValidatingWebhookConfiguration{}} {
		structs(reflect.TypeOf(o), types)
	}
	for of := range types {
		for i := range of.NumField() {
			if f := of.Field(i); f.IsExported() && telling.MatchString(f.Name) && isHandedOn(of, i) {
				kept = append(kept, of.String()+"."+f.Name+"\n")
			}
		}
	}
	slices.Sort(kept)
	got, file := strings.Join(slices.Compact(kept), ""), filepath.Join("testdata", "kept.txt")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range kept {
		if !strings.Contains("\n"+string(want), "\n"+line) {
			t.Errorf("%s is handed on: clear it in redact.go, or add it to %s when it holds no secret", strings.TrimSpace(line), file)
		}
	}
	for line := range strings.Lines(string(want)) {
		if !slices.Contains(kept, line) {
			t.Errorf("%s is no longer handed on; strike it from %s", strings.TrimSpace(line), file)
		}
	}
}

// structs collects the structs that a type consists of.
func structs(of reflect.Type, into map[reflect.Type]bool) {
	switch of.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		structs(of.Elem(), into)
	case reflect.Struct:
		if into[of] {
			return
		}
		into[of] = true
		for i := range of.NumField() {
			structs(of.Field(i).Type, into)
		}
	}
}

// isHandedOn reports whether a text in a field of a struct is there in its copy.
func isHandedOn(of reflect.Type, field int) bool {
	const mark = "mark"
	v := reflect.New(of).Elem()
	f := v.Field(field)
	elem := f.Type()
	for elem.Kind() == reflect.Pointer || elem.Kind() == reflect.Slice || elem.Kind() == reflect.Map {
		elem = elem.Elem()
	}
	if elem.Kind() != reflect.String && elem.Kind() != reflect.Uint8 {
		return false // a number, or a struct, which has fields of its own
	}
	fill(f, mark, 0)
	out := redactor{}.copy(v).Field(field)
	return reflect.DeepEqual(out.Interface(), f.Interface())
}

// TestPasswordsInURLsAreLeftOut: in every text of every object, also of kops' own.
func TestPasswordsInURLsAreLeftOut(t *testing.T) {
	const secret = "http://u:hush@h/x?sig=hush"
	host := api.HTTPProxy{Host: "u:hush@proxy"}
	cluster := &api.Cluster{}
	cluster.Spec.Assets = &api.AssetsSpec{FileRepository: new(secret)}
	cluster.Spec.Networking.EgressProxy = &api.EgressProxySpec{HTTPProxy: host}
	pod := &corev1.Pod{}
	pod.Labels = map[string]string{"kops.k8s.io/managed-by": "kops"}
	pod.Spec.Containers = []corev1.Container{{Args: []string{"--proxy=" + secret}}}
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Args: []string{"-phush"}}}}
	for _, text := range []string{format(Redacted(cluster)), format(Redacted(pod))} {
		if strings.Contains(text, "hush") || !strings.Contains(text, "http://xxxxx@h/x") {
			t.Error(text)
		}
	}
}

func format(o any) string {
	f := Files{}
	f.Add("x", o, nil)
	return string(f["x"])
}
