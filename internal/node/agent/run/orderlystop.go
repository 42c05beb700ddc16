package run

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"kops.local/kops/internal/node/agent/node"
)

const (
	// endPause is the interval between checks whether processes have exited. apiServerEnd is
	// how long an API server may take, and podsEnd all pods: their own grace period is half a
	// minute.
	endPause              = 200 * time.Millisecond
	apiServerEnd, podsEnd = 15 * time.Second, time.Minute
)

// orderlyStop makes a change in place follow an order in which the kubelet stops pods cleanly: if
// the manifest of a static pod changes, its old processes must exit before the change
// continues.
type orderlyStop struct {
	root  string
	clock Clock
	// old are the processes' folders in /proc.
	old []string
}

// onRewrite notes the processes of a static pod whose manifest is about to change. Resources that
// depend on the API server's manifest wait until the API server has exited, because it cannot shut
// down cleanly once its etcd has exited: it would be killed after half a minute, and until then
// the kubelet, which calls it, would start no pod.
func (e *orderlyStop) onRewrite(manifest string) (after func(context.Context)) {
	if filepath.Dir(manifest) != node.Manifests {
		return nil
	}
	old := e.processes(manifest)
	e.old = append(e.old, old...)
	if manifest != node.APIServerManifest {
		return nil
	}
	return func(ctx context.Context) { e.await(ctx, old, apiServerEnd) }
}

// beforeRestart waits, before the kubelet is restarted, until the pods whose manifests have
// changed have exited. A kubelet that is restarted while it stops a pod forgets that pod: it runs
// the next pod beside the old one for minutes, or takes minutes to notice that there is a next
// one.
func (e *orderlyStop) beforeRestart(ctx context.Context, unit string) {
	if unit == node.KubeletUnit {
		e.await(ctx, e.old, podsEnd)
	}
}

// await waits until none of the processes exists, for no longer than most.
func (e *orderlyStop) await(ctx context.Context, old []string, most time.Duration) {
	there := func(process string) bool {
		_, err := os.Stat(process)
		return err == nil
	}
	for end := e.clock.Now().Add(most); slices.ContainsFunc(old, there) && e.clock.Now().Before(end); {
		if e.clock.Sleep(ctx, endPause) != nil {
			return
		}
	}
}

// processes returns the folders in /proc of a static pod's processes: the kubelet names the
// folder of a pod's logs after the pod and its UID, and its cgroup after the UID.
func (e *orderlyStop) processes(manifest string) []string {
	text, err := os.ReadFile(filepath.Join(e.root, manifest))
	if err != nil {
		return nil // there was no manifest
	}
	var pod struct {
		Metadata struct{ Name, Namespace string }
	}
	if err := yaml.Unmarshal(text, &pod); err != nil || pod.Metadata.Name == "" {
		return nil // it runs no pod
	}
	logs, _ := filepath.Glob(filepath.Join(e.root, "var/log/pods", pod.Metadata.Namespace+"_"+pod.Metadata.Name+"-*_*")) // the pattern is valid
	all, _ := filepath.Glob(filepath.Join(e.root, "proc/[0-9]*"))
	return slices.DeleteFunc(all, func(process string) bool {
		groups, err := os.ReadFile(filepath.Join(process, "cgroup"))
		return err != nil || !slices.ContainsFunc(logs, func(l string) bool {
			return strings.Contains(string(groups), "pod"+l[strings.LastIndex(l, "_")+1:])
		})
	})
}
