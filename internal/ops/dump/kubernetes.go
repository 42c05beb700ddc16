package dump

import (
	"context"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"
)

const (
	// page is how many objects are asked for at once.
	page = 500
	// mostLog is how many bytes of a container's log are kept, the last.
	mostLog = int64(1 << 20)
)

// Files are a dump: contents by path, with slashes. What could not be had is there as a text
// that says why, under the path with ".error" behind it.
type Files map[string][]byte

// Add writes a value as YAML, or why it is missing.
func (f Files) Add(path string, value any, err error) {
	var text []byte
	if err == nil {
		text, err = yaml.Marshal(value)
	}
	if err != nil {
		f[path+".error"] = []byte(err.Error() + "\n")
		return
	}
	f[path] = text
}

// Part is a name that an API server, a cloud or a machine chose, as one part of a path: it
// holds no separator, and does not begin with a dot.
func Part(name string) string {
	plain := strings.Map(func(r rune) rune {
		if r < ' ' || strings.ContainsRune(`/\:*?"<>|`, r) || r == utf8.RuneError {
			return '_'
		}
		return r
	}, name)
	if plain == "" || plain[0] == '.' {
		plain = "_" + plain
	}
	return plain
}

// lister asks for a page of the objects of a kind.
type lister func(context.Context, metav1.ListOptions) (runtime.Object, error)

// listing makes a lister of a client's List.
func listing[T runtime.Object](list func(context.Context, metav1.ListOptions) (T, error)) lister {
	return func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return list(ctx, o) }
}

// Objects adds the objects of a cluster, a file for each kind, without what may be secret.
func (f Files) Objects(ctx context.Context, c kubernetes.Interface) {
	core, apps, hooks := c.CoreV1(), c.AppsV1(), c.AdmissionregistrationV1()
	for kind, list := range map[string]lister{
		"nodes": listing(core.Nodes().List), "namespaces": listing(core.Namespaces().List), "pods": listing(core.Pods("").List),
		"events": listing(core.Events("").List), "services": listing(core.Services("").List), "configmaps": listing(core.ConfigMaps("").List),
		"secrets": listing(core.Secrets("").List), "persistentvolumes": listing(core.PersistentVolumes().List),
		"persistentvolumeclaims": listing(core.PersistentVolumeClaims("").List), "deployments": listing(apps.Deployments("").List),
		"daemonsets": listing(apps.DaemonSets("").List), "statefulsets": listing(apps.StatefulSets("").List), "jobs": listing(c.BatchV1().Jobs("").List),
		"poddisruptionbudgets": listing(c.PolicyV1().PodDisruptionBudgets("").List), "endpointslices": listing(c.DiscoveryV1().EndpointSlices("").List),
		"leases": listing(c.CoordinationV1().Leases("").List), "storageclasses": listing(c.StorageV1().StorageClasses().List),
		"mutatingwebhookconfigurations":   listing(hooks.MutatingWebhookConfigurations().List),
		"validatingwebhookconfigurations": listing(hooks.ValidatingWebhookConfigurations().List),
	} {
		all, err := every(ctx, list)
		f.Add("kubernetes/"+kind+".yaml", all, err)
	}
}

// every asks for all objects of a kind, and takes out what may be secret.
func every(ctx context.Context, list lister) ([]any, error) {
	out, o := []any{}, metav1.ListOptions{Limit: page}
	for {
		got, err := list(ctx, o)
		if err != nil {
			return nil, err
		}
		items := reflect.ValueOf(got).Elem().FieldByName("Items")
		for i := range items.Len() {
			own := redactor{}
			if m, is := items.Index(i).Addr().Interface().(metav1.Object); is {
				own.own = isOwn(m)
			}
			out = append(out, own.copy(items.Index(i)).Interface())
		}
		if o.Continue = got.(metav1.ListInterface).GetContinue(); o.Continue == "" {
			return out, nil
		}
	}
}

// Logs adds what the containers wrote that kops runs itself, and those that crashed in their lives before.
func (f Files) Logs(ctx context.Context, c kubernetes.Interface) {
	list, err := c.CoreV1().Pods(system).List(ctx, metav1.ListOptions{})
	if err != nil {
		f.Add("logs", nil, err)
		return
	}
	for _, p := range list.Items {
		for _, s := range append(p.Status.InitContainerStatuses, p.Status.ContainerStatuses...) {
			f.log(ctx, c, &p, s.Name, false)
			if s.RestartCount > 0 {
				f.log(ctx, c, &p, s.Name, true)
			}
		}
	}
}

func (f Files) log(ctx context.Context, c kubernetes.Interface, p *corev1.Pod, container string, previous bool) {
	path := "logs/" + Part(p.Name) + "/" + Part(container) + ".log"
	if previous {
		path = "logs/" + Part(p.Name) + "/" + Part(container) + ".previous.log"
	}
	most := mostLog
	stream, err := c.CoreV1().Pods(p.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{Container: container, Previous: previous, LimitBytes: &most, Timestamps: true, TailLines: new(int64(5000))}).Stream(ctx)
	if err != nil {
		f.Add(path, nil, err)
		return
	}
	defer stream.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(stream, most))
	if err != nil {
		f.Add(path, nil, err)
		return
	}
	f[path] = text
}
