package host

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"kops.local/kops/internal/engine/resource"
)

// Reader is a container of the cluster that reads one of the machine's files, such as
// a certificate, only at startup.
type Reader struct {
	// Container is the container's name in its pod.
	Container string `res:"forbid"`
	// Path is the file.
	Path string `res:"forbid"`
	// Current is always wanted: the running programs were started after the file was written.
	Current bool
}

// Readers is the kind of Reader. A container that is not current is stopped, and the
// kubelet starts it again. In a folder, where no program is run, there are no
// readers.
var Readers = resource.Kind[Reader, *Machine]{
	Name: "host_reader", API: "units", Direct: true,
	Key: readerKey, List: listReaders, Create: stopOutdated,
	Update: []resource.Setter[Reader, *Machine]{{Fields: []string{"Current"},
		Set: func(ctx context.Context, m *Machine, _, want *Reader) error { return stopOutdated(ctx, m, want) }}},
	Delete: func(context.Context, *Machine, *Reader) error { return nil }, // the container belongs to the cluster
}

func readerKey(r *Reader) string { return r.Container + "=" + r.Path }

func listReaders(ctx context.Context, m *Machine, s resource.Scope) ([]*Reader, error) {
	var out []*Reader
	for _, key := range s.Names {
		container, path, _ := strings.Cut(key, "=")
		r := &Reader{Container: container, Path: path}
		old, err := m.outdatedContainers(ctx, r)
		if err != nil {
			return nil, err
		}
		r.Current = len(old) == 0
		out = append(out, r)
	}
	return out, nil
}

func stopOutdated(ctx context.Context, m *Machine, r *Reader) error {
	old, err := m.outdatedContainers(ctx, r)
	if err != nil {
		return err
	}
	for _, id := range old {
		if _, err := m.ctr(ctx, "tasks", "kill", "--signal", "SIGTERM", id); err != nil {
			return fmt.Errorf("restart the container %s to reload %s: %w", r.Container, r.Path, err)
		}
	}
	return nil
}

// kubernetesName is the label with which the kubelet names containerd's containers
// (Kubernetes, pkg/kubelet/types, KubernetesContainerNameLabel).
const kubernetesName = "io.kubernetes.container.name"

// outdatedContainers lists the running containers that are older than the file that they read.
func (m *Machine) outdatedContainers(ctx context.Context, r *Reader) ([]string, error) {
	info, err := os.Stat(m.path(r.Path))
	if isMissing(err) || m.Command == nil {
		return nil, nil
	}
	if err != nil {
		return nil, classifyFileError(err)
	}
	named, err := m.ctr(ctx, "containers", "list", "--quiet", fmt.Sprintf("labels.%q==%s", kubernetesName, r.Container))
	if err != nil {
		return nil, fmt.Errorf("list the containers %s: %w", r.Container, err)
	}
	running, err := m.runningContainers(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, id := range strings.Fields(string(named)) {
		if !slices.Contains(running, id) {
			continue
		}
		text, err := m.ctr(ctx, "containers", "info", id)
		if err != nil {
			return nil, fmt.Errorf("inspect the container %s: %w", r.Container, err)
		}
		var c struct{ CreatedAt time.Time }
		if err := json.Unmarshal(text, &c); err != nil {
			return nil, fmt.Errorf("inspect the container %s: %w", r.Container, err)
		}
		if c.CreatedAt.Before(info.ModTime()) {
			out = append(out, id)
		}
	}
	return out, nil
}

// runningContainers lists the containers whose task is running: the first word of a line is
// the container, and the last is the task's status.
func (m *Machine) runningContainers(ctx context.Context) ([]string, error) {
	text, err := m.ctr(ctx, "tasks", "list")
	if err != nil {
		return nil, fmt.Errorf("list the running containers: %w", err)
	}
	var out []string
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && f[2] == "RUNNING" {
			out = append(out, f[0])
		}
	}
	return out, nil
}
