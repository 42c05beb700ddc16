// Package dump collects information about a cluster in trouble for others to examine: a folder of
// files that may be passed on, because possible secrets were removed.
//
// Values are removed by type, not by appearance: the values of Secrets and ConfigMaps, of
// environment variables, the contents of files, and the arguments of programs other than kops' own.
// URLs lose user, password and query everywhere. The package must not know any platform, the store
// or the terminal.
package dump

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"kops.local/kops/api"
	"kops.local/kops/api/status"
	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/engine/redact"
)

// system is the namespace of what kops itself runs.
const system = metav1.NamespaceSystem

// isOwn reports whether kops itself runs an object, whose arguments then hold no secret: it has the
// label of an add-on or of an add-on's pods, or is a component's static pod. A user's own pods in
// kube-system are not.
func isOwn(o metav1.Object) bool {
	own := o.GetLabels()
	if own[labels.ManagedBy] == labels.Kops || own[labels.PodManagedBy] == labels.Kops {
		return true
	}
	_, static := o.GetAnnotations()[corev1.MirrorPodAnnotationKey]
	app := own["k8s-app"]
	return static && o.GetNamespace() == system && (strings.HasPrefix(app, "kube-") || strings.HasPrefix(app, "kops-") || strings.HasPrefix(app, "etcd-manager-"))
}

// Redacted returns a copy of a value without possible secrets. It knows the types of this module's API
// and of Kubernetes'.
func Redacted[T any](value T) T {
	out := new(T)
	reflect.ValueOf(out).Elem().Set(redactor{}.copy(reflect.ValueOf(&value).Elem()))
	return *out
}

// leftOut matches the names of the fields of clusters and groups whose values Redacted leaves out.
var leftOut = regexp.MustCompile(`(?i)\b(command|configAdditions|configOverride|content|environment|filesProviderExtraConfig|manifest|providerExtraConfig|secret|value|webhookURL)\b`)

// LeavesOut reports whether Redacted may leave out a value of an assignment, spec.path=value, because
// the path or a block in the value names such a field.
func LeavesOut(assignment string) bool { return leftOut.MatchString(assignment) }

type redactor struct {
	within bool // an object
	own    bool // which kops itself runs
}

// copy returns a deep copy of a value without secrets.
func (r redactor) copy(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			out.Set(reflect.New(v.Type().Elem()))
			out.Elem().Set(r.copy(v.Elem()))
		}
	case reflect.Interface:
		if !v.IsNil() {
			out.Set(r.copy(v.Elem()))
		}
	case reflect.Slice:
		if !v.IsNil() {
			out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
			for i := range v.Len() {
				out.Index(i).Set(r.copy(v.Index(i)))
			}
		}
	case reflect.Map:
		if !v.IsNil() {
			out.Set(reflect.MakeMapWithSize(v.Type(), v.Len()))
			for _, k := range v.MapKeys() {
				out.SetMapIndex(k, r.copy(v.MapIndex(k)))
			}
		}
	case reflect.Struct:
		out.Set(v) // also copies unexported fields
		if o, is := out.Addr().Interface().(metav1.Object); is && !r.within {
			r = redactor{within: true, own: isOwn(o)}
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				out.Field(i).Set(r.copy(v.Field(i)))
			}
		}
		r.clear(out)
	case reflect.String:
		out.SetString(redact.URLs(v.String()))
	default:
		out.Set(v)
	}
	return out
}

// clear removes possible secrets from a struct.
func (r redactor) clear(v reflect.Value) {
	switch x := v.Addr().Interface().(type) {
	case *corev1.Secret:
		values(x.Data)
		values(x.StringData)
	case *corev1.ConfigMap:
		values(x.Data)
		values(x.BinaryData)
	case *corev1.EnvVar:
		text(&x.Value)
	case *corev1.Container:
		if !r.own {
			list(x.Args)
			list(x.Command)
		}
	case *corev1.EphemeralContainerCommon: // for kubectl debug, even in a pod of kops
		list(x.Args)
		list(x.Command)
	case *corev1.CSIVolumeSource:
		values(x.VolumeAttributes)
	case *corev1.CSIPersistentVolumeSource:
		values(x.VolumeAttributes)
	case *corev1.FlexVolumeSource:
		values(x.Options)
	case *corev1.FlexPersistentVolumeSource:
		values(x.Options)
	case *corev1.GitRepoVolumeSource:
		text(&x.Repository)
	case *corev1.ExecAction:
		if !r.own {
			list(x.Command)
		}
	case *corev1.HTTPHeader:
		text(&x.Value)
	case *metav1.ObjectMeta:
		delete(x.Annotations, corev1.LastAppliedConfigAnnotation) // a copy of the object
		x.ManagedFields = nil
	case *status.Reason: // its field, such as the content of a file, may hold a secret
		text(&x.Have)
		text(&x.Want)
	case *api.EnvVar:
		text(&x.Value)
	case *api.ContainerEnvVar:
		text(&x.Value)
	case *api.FileAssetSpec:
		text(&x.Content)
	case *api.UserData:
		text(&x.Content)
	case *api.HookSpec:
		text(&x.Manifest)
	case *api.ExecContainerAction:
		list(x.Command)
		values(x.Environment)
	case *api.ContainerdConfig:
		secret(x.ConfigOverride) // may contain the passwords of registries
		for k := range x.ConfigAdditions {
			s := x.ConfigAdditions[k]
			x.ConfigAdditions[k] = intstr.FromString(replacement(len(s.String())))
		}
	case *corev1.PersistentVolumeSpec: // may contain the password for mount.cifs
		list(x.MountOptions)
	case *storagev1.StorageClass:
		list(x.MountOptions)
	case *api.NodeTerminationHandlerSpec: // the path of such a URL is a secret
		secret(x.WebhookURL)
	case *api.TerraformSpec: // may contain the credentials of providers
		values(x.ProviderExtraConfig)
		values(x.FilesProviderExtraConfig)
	case *api.HTTPProxy:
		x.Host = redact.Field("host", x.Host)
	case *api.GossipConfig:
		secret(x.Secret)
	case *api.GossipConfigSecondary:
		secret(x.Secret)
	case *api.DNSControllerGossipConfig:
		secret(x.Secret)
	case *api.DNSControllerGossipConfigSecondary:
		secret(x.Secret)
	}
}

func secret(s *string) {
	if s != nil {
		text(s)
	}
}

// replacement returns the replacement for a text.
func replacement(size int) string { return fmt.Sprintf("(%d bytes, left out)", size) }

func text(s *string) {
	if *s != "" {
		*s = replacement(len(*s))
	}
}

func list(s []string) {
	for i := range s {
		text(&s[i])
	}
}

// values hides the values of a map, but not its keys.
func values[T string | []byte](m map[string]T) {
	for k, v := range m {
		m[k] = T(replacement(len(v)))
	}
}
