package dump

import (
	"context"
	"io"
	"iter"
	"reflect"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kops.local/kops/internal/engine/escape/yamltext"
	"kops.local/kops/internal/engine/redact"
	"kops.local/kops/internal/ops/kubeclient"
)

// maxLog is how many bytes of a container's log are kept, the last.
const maxLog = int64(1 << 20)

// Files are a dump: contents by path, with slashes. If something was not available, a text under
// its path plus ".error" explains why.
type Files map[string][]byte

// Add writes a value as YAML, without possible secrets, or the reason why it is missing.
func (f Files) Add(path string, value any, err error) {
	var text []byte
	if err == nil {
		text, err = yamltext.Marshal(Redacted(value))
	}
	if err != nil {
		f[path+".error"] = []byte(redact.URLs(err.Error()) + "\n")
		return
	}
	f[path] = text
}

// Part turns a name that an API server, a cloud or a machine chose into one part of a path: the
// result has no separator and does not begin with a dot.
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

// Objects adds the objects of a cluster, a file for each kind.
func (f Files) Objects(ctx context.Context, c *kubeclient.Client) {
	for kind, list := range map[string]func(context.Context) ([]any, error){
		"nodes": all(c.Nodes().Pages), "namespaces": all(c.Namespaces().Pages), "pods": all(c.Pods("").Pages),
		"events": all(c.Events("").Pages), "services": all(c.Services("").Pages), "configmaps": all(c.ConfigMaps("").Pages),
		"secrets": all(c.Secrets("").Pages), "persistentvolumes": all(c.PersistentVolumes().Pages),
		"persistentvolumeclaims": all(c.PersistentVolumeClaims("").Pages), "deployments": all(c.Deployments("").Pages),
		"daemonsets": all(c.DaemonSets("").Pages), "statefulsets": all(c.StatefulSets("").Pages), "jobs": all(c.Jobs("").Pages),
		"poddisruptionbudgets": all(c.PodDisruptionBudgets("").Pages), "endpointslices": all(c.EndpointSlices("").Pages),
		"leases": all(c.Leases("").Pages), "storageclasses": all(c.StorageClasses().Pages),
		"mutatingwebhookconfigurations":   all(c.MutatingWebhookConfigurations().Pages),
		"validatingwebhookconfigurations": all(c.ValidatingWebhookConfigurations().Pages),
	} {
		objects, err := list(ctx)
		f.Add("kubernetes/"+kind+".yaml", objects, err)
	}
}

// all returns a function that lists all objects of a kind.
func all[L runtime.Object](pages func(context.Context, metav1.ListOptions) iter.Seq2[L, error]) func(context.Context) ([]any, error) {
	return func(ctx context.Context) ([]any, error) {
		out := []any{}
		for page, err := range pages(ctx, metav1.ListOptions{}) {
			if err != nil {
				return nil, err
			}
			items := reflect.ValueOf(page).Elem().FieldByName("Items")
			for i := range items.Len() {
				out = append(out, items.Index(i).Interface())
			}
		}
		return out, nil
	}
}

// Logs adds the logs of the containers that kops itself runs, and the previous logs of those that
// crashed.
func (f Files) Logs(ctx context.Context, c *kubeclient.Client) {
	list, err := c.Pods(system).List(ctx, metav1.ListOptions{})
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

func (f Files) log(ctx context.Context, c *kubeclient.Client, p *corev1.Pod, container string, previous bool) {
	path := "logs/" + Part(p.Name) + "/" + Part(container) + ".log"
	if previous {
		path = "logs/" + Part(p.Name) + "/" + Part(container) + ".previous.log"
	}
	most := maxLog
	stream, err := c.Logs(p.Namespace, p.Name, &corev1.PodLogOptions{Container: container, Previous: previous, LimitBytes: &most, Timestamps: true, TailLines: new(int64(5000))}).Stream(ctx)
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
