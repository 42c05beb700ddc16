package dump

import (
	"errors"
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
	"kops.local/kops/api/status"
)

var update = flag.Bool("update", false, "rewrite testdata/kept.txt")

// telling matches the names of fields that may hold a secret.
var telling = regexp.MustCompile(`(?i)(ur[li]|host|prox|mirror|endpoint|server|repositor|address|args|command|attributes|password|secret|token|credential|header|key$|content|config|script|data|env|value|annotations|parameters|options|extra|user)`)

// TestDumpedFields compares the list of fields that are included in a dump although their
// names suggest a secret. A new field of the API or of Kubernetes makes it fail until a decision is
// made: clear it in redact.go, or, if it only names something, add it to the list with -update.
func TestDumpedFields(t *testing.T) {
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

// structs collects the structs in a type.
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

// TestAssignmentsToFieldsThatAreLeftOut checks that every such field of a cluster or a group is known by
// its name.
func TestAssignmentsToFieldsThatAreLeftOut(t *testing.T) {
	types, found := map[reflect.Type]bool{}, 0
	structs(reflect.TypeFor[api.Cluster](), types)
	structs(reflect.TypeFor[api.InstanceGroup](), types)
	for of := range types {
		if of.PkgPath() != reflect.TypeFor[api.Cluster]().PkgPath() {
			continue
		}
		for i := range of.NumField() {
			f := of.Field(i)
			if !f.IsExported() || !isText(f.Type) || isHandedOn(of, i) {
				continue
			}
			found++
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); !LeavesOut("spec.x." + name + "=x") {
				t.Errorf("%s.%s is left out: add %q to leftOut", of, f.Name, name)
			}
		}
	}
	if found < 12 {
		t.Errorf("%d fields are left out", found)
	}
	if LeavesOut("spec.kubelet.maxPods=110") {
		t.Error("a number is left out")
	}
}

// isText reports whether a type is a text, or a list or a map of texts.
func isText(of reflect.Type) bool {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice || of.Kind() == reflect.Map {
		of = of.Elem()
	}
	return of.Kind() == reflect.String || of.Kind() == reflect.Uint8
}

// isHandedOn reports whether a text in a field of a struct is kept in its copy.
func isHandedOn(of reflect.Type, field int) bool {
	const mark = "mark"
	v := reflect.New(of).Elem()
	f := v.Field(field)
	if !isText(f.Type()) {
		return false // a number, or a struct with fields of its own
	}
	fill(f, mark, 0)
	out := redactor{}.copy(v).Field(field)
	return reflect.DeepEqual(out.Interface(), f.Interface())
}

// TestPasswordsInURLsAreLeftOut checks every text of every object, including kops' own.
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

// TestEveryFileIsWithoutSecrets: what is added has any type of this module, in a list, or is an error.
func TestEveryFileIsWithoutSecrets(t *testing.T) {
	const secret = "pull https://u:hush@reg/x?sig=hush"
	pod := corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Args: []string{"-phush"}}}}}
	f := Files{}
	f.Add("diagnosis.yaml", &status.Diagnosis{Pods: []status.Pod{{Message: secret}}, Machines: []status.Machine{{Message: secret,
		Reasons: []status.Reason{{Field: "spec.fileAssets[a].content", Have: "hush", Want: "hush"}}}}}, nil)
	f.Add("revisions.yaml", []struct{ Command string }{{secret}}, nil)
	f.Add("pods.yaml", []any{pod, &pod}, nil)
	f.Add("error", nil, errors.New(secret))
	for path, text := range f {
		if strings.Contains(string(text), "hush") || path != "pods.yaml" && !strings.Contains(string(text), "https://xxxxx@reg/x?xxxxx") {
			t.Errorf("%s:\n%s", path, text)
		}
	}
	if len(f) != 4 {
		t.Errorf("there are %d files", len(f))
	}
}

// TestAMessageWithControlCharacters: the text of a pod must not prevent a file.
func TestAMessageWithControlCharacters(t *testing.T) {
	pod := &corev1.Pod{Status: corev1.PodStatus{Message: "\u009b2J \x7f"}}
	if text := format(pod); !strings.Contains(text, `message: "\x9B2J \x7F"`) {
		t.Errorf("the file is %q", text)
	}
}
