package dump

import (
	"reflect"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
)

// fill sets every text in a value to the path that leads to it.
func fill(v reflect.Value, path string, depth int) {
	if depth > 12 {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), path, depth+1)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(path))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), path, depth+1)
	case reflect.Map:
		if v.Type().Key().Kind() != reflect.String {
			return
		}
		item := reflect.New(v.Type().Elem()).Elem()
		fill(item, path, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key").Convert(v.Type().Key()), item)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				fill(v.Field(i), path+"."+f.Name, depth+1)
			}
		}
	case reflect.String:
		v.SetString(path)
	}
}

// TestSecretsOfASpecAreNotDumped checks that a field whose name suggests a secret is left out,
// unless it only names something.
func TestSecretsOfASpecAreNotDumped(t *testing.T) {
	secret := regexp.MustCompile(`(?i)(\.secret|password|private(key)?material|\.content|configoverride|env\.value|environment|manager\.env\.value)$`)
	c, g := &api.Cluster{}, &api.InstanceGroup{}
	for _, o := range []any{c, g} {
		fill(reflect.ValueOf(o).Elem().FieldByName("Spec"), "spec", 0)
	}
	left, err := yaml.Marshal([]any{Redacted(c), Redacted(g)})
	if err != nil {
		t.Fatal(err)
	}
	whole, err := yaml.Marshal([]any{c, g})
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, path := range regexp.MustCompile(`spec[.\w]+`).FindAllString(string(whole), -1) {
		if secret.MatchString(path) {
			found++
			if regexp.MustCompile(`\b` + regexp.QuoteMeta(path) + `\n`).Match(left) {
				t.Errorf("%s is handed on", path)
			}
		}
	}
	if found < 10 || !strings.Contains(string(left), "spec.KubernetesVersion") {
		t.Errorf("%d fields may be secret; of the rest there is\n%.300s", found, left)
	}
}

// TestSecretsOfAnObjectAreNotDumped checks that values are removed by type, whatever the texts
// look like.
func TestSecretsOfAnObjectAreNotDumped(t *testing.T) {
	pod := func(namespace string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: namespace, Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: "hush", "other": "seen"}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Args: []string{"--flag=argument"}, Env: []corev1.EnvVar{{Name: "NAME", Value: "hush"}}}}}}
	}
	addon, other := pod("kube-system"), pod("kube-system") // a user's pod may be in it, too
	addon.Labels = map[string]string{"kops.k8s.io/managed-by": "kops"}
	own := Redacted(addon)
	theirs := Redacted(other)
	for what, o := range map[string]any{"own": own, "theirs": theirs,
		"secret": Redacted(&corev1.Secret{Data: map[string][]byte{"seen": []byte("hush")}, StringData: map[string]string{"b": "hush"}}),
		"map":    Redacted(&corev1.ConfigMap{Data: map[string]string{"seen": "hush"}})} {
		text, err := yaml.Marshal(o)
		if err != nil || strings.Contains(string(text), "hush") || !strings.Contains(string(text), "seen") {
			t.Errorf("%s: %v\n%s", what, err, text)
		}
	}
	if own.Spec.Containers[0].Args[0] != "--flag=argument" || strings.Contains(theirs.Spec.Containers[0].Args[0], "argument") {
		t.Errorf("the arguments are %v of our own, and %v of theirs", own.Spec.Containers[0].Args, theirs.Spec.Containers[0].Args)
	}
	if other.Spec.Containers[0].Env[0].Value != "hush" {
		t.Error("the object itself was changed")
	}
}
