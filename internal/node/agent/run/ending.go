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
	// endPause is how often it is looked whether processes have ended. apiServerEnd is how long
	// an API server may take, and podsEnd all pods: their own time is half a minute.
	endPause              = 200 * time.Millisecond
	apiServerEnd, podsEnd = 15 * time.Second, time.Minute
)

// ending has a change in place keep an order in which the kubelet ends pods well: a pod of the
// machine's own whose manifest changes has processes, which end before something else goes on.
type ending struct {
	root  string
	clock Clock
	// old are the folders in /proc of the processes.
	old []string
}

// onRewrite notes the processes of a static pod whose manifest is about to change. What follows
// the manifest of the API server waits until this has ended, which it cannot in an orderly way
// once its etcd has: it would be killed after half a minute, and the kubelet, which asks it, start
// no pod until then.
func (e *ending) onRewrite(manifest string) (after func(context.Context)) {
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

// beforeRestart waits, before the kubelet is restarted, until the pods have ended whose manifests
// have changed. A kubelet that starts while it ends a pod forgets it: it runs the next pod beside
// the old for minutes, or notices only after minutes that there is a next one.
func (e *ending) beforeRestart(ctx context.Context, unit string) {
	if unit == node.KubeletUnit {
		e.await(ctx, e.old, podsEnd)
	}
}

// await waits until none of some processes is there, for no longer than most.
func (e *ending) await(ctx context.Context, old []string, most time.Duration) {
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

// processes are the folders in /proc of the processes of a static pod: the kubelet names the
// folder of a pod's logs by the pod and its identifier, and its control group by the latter.
func (e *ending) processes(manifest string) []string {
	text, err := os.ReadFile(filepath.Join(e.root, manifest))
	if err != nil {
		return nil // there was none
	}
	var pod struct {
		Metadata struct{ Name, Namespace string }
	}
	if err := yaml.Unmarshal(text, &pod); err != nil || pod.Metadata.Name == "" {
		return nil // it runs none
	}
	logs, _ := filepath.Glob(filepath.Join(e.root, "var/log/pods", pod.Metadata.Namespace+"_"+pod.Metadata.Name+"-*_*")) // the pattern is right
	all, _ := filepath.Glob(filepath.Join(e.root, "proc/[0-9]*"))
	return slices.DeleteFunc(all, func(process string) bool {
		groups, err := os.ReadFile(filepath.Join(process, "cgroup"))
		return err != nil || !slices.ContainsFunc(logs, func(l string) bool {
			return strings.Contains(string(groups), "pod"+l[strings.LastIndex(l, "_")+1:])
		})
	})
}
