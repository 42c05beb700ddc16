package precheck

import (
	"bufio"
	"context"
	_ "embed"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kops.local/kops/internal/ops/kubeclient"
	"kops.local/kops/internal/spec/versions"
)

// Request is an API that was requested since a server started, and the release that removes it.
type Request struct{ Group, Version, Resource, Subresource, Removed string }

// Written is an object that a client wrote in an API that will be removed.
type Written struct{ Object, APIVersion, Manager, Removed string }

// Storage is how many bytes an API server reports for an etcd cluster, which it identifies by
// number.
type Storage struct {
	Cluster string
	Bytes   float64
}

// removedAPIs stops the upgrade for removed APIs that clients still request. An object that was
// once written in such an API is only a warning: its writer may no longer exist.
func (j *judge) removedAPIs() {
	for _, r := range j.Requests {
		v, err := versions.ParseVersion(r.Removed + ".0")
		if err != nil || !versions.AtLeast(j.Target, v.Major, v.Minor) {
			continue
		}
		resource := strings.TrimSuffix(r.Resource+"/"+r.Subresource, "/")
		j.stop(schema.GroupVersion{Group: r.Group, Version: r.Version}.String()+" "+resource, "is used by a client, and Kubernetes "+r.Removed+" no longer serves it",
			"make the client use a newer version of the API; the audit log shows which client it is; the API server forgets past requests when it restarts")
	}
	for _, w := range j.Written {
		j.warn(w.Object, fmt.Sprintf("was written in %s by %s, and Kubernetes %s no longer serves that API", w.APIVersion, w.Manager, w.Removed),
			"make the client use a newer version of the API")
	}
	if want := j.servers(); j.Servers < want {
		j.warn("", fmt.Sprintf("%d of %d API servers reported which APIs clients use", j.Servers, want), "try again, or check the others with option:Server")
	}
}

// observeRequests queries the servers behind one address, over a new connection each time, until as
// many have responded as there are machines with an API server.
func observeRequests(ctx context.Context, c *kubeclient.Client, servers int, s *Observation) error {
	seen := map[string]bool{}
	for range 3 * max(1, servers) {
		m, err := readMetrics(ctx, c)
		if err != nil {
			return err
		}
		if !seen[m.started] {
			seen[m.started] = true
			s.Servers++
			s.Requests = append(s.Requests, m.requests...)
			s.Storage = m.storage
		}
		if s.Servers >= servers {
			break
		}
		c.CloseIdleConnections()
	}
	slices.SortFunc(s.Requests, func(a, b Request) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	s.Requests = slices.Compact(s.Requests)
	return nil
}

// metrics are the metrics that are read from a server.
type metrics struct {
	started  string // identifies the server
	requests []Request
	storage  []Storage
}

// Metrics of kube-apiserver that are read (Kubernetes Metrics Reference).
const (
	metricRequested = "apiserver_requested_deprecated_apis{"
	metricStorage   = "apiserver_storage_size_bytes{"
	metricStarted   = "process_start_time_seconds "
)

func readMetrics(ctx context.Context, c *kubeclient.Client) (m metrics, err error) {
	body, err := c.Path("/metrics").Stream(ctx)
	if err != nil {
		return m, fmt.Errorf("read the metrics of the API server: %w", err)
	}
	defer body.Close() //nolint:errcheck // it was only read
	m, err = parseMetrics(body)
	if err != nil {
		err = fmt.Errorf("read the metrics of the API server: %w", err)
	}
	return m, err
}

func parseMetrics(r io.Reader) (m metrics, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		l := lines.Text()
		switch {
		case strings.HasPrefix(l, metricRequested):
			label := labelsOf(l)
			m.requests = append(m.requests, Request{label["group"], label["version"], label["resource"], label["subresource"], label["removed_release"]})
		case strings.HasPrefix(l, metricStorage):
			s := Storage{Cluster: labelsOf(l)["storage_cluster_id"]}
			if _, err := fmt.Sscan(l[strings.LastIndex(l, " ")+1:], &s.Bytes); err == nil {
				m.storage = append(m.storage, s)
			}
		case strings.HasPrefix(l, metricStarted):
			m.started = strings.TrimPrefix(l, metricStarted)
		}
	}
	return m, lines.Err()
}

var labelPair = regexp.MustCompile(`(\w+)="([^"]*)"`)

func labelsOf(line string) map[string]string {
	out := map[string]string{}
	for _, m := range labelPair.FindAllStringSubmatch(line, -1) {
		out[m[1]] = m[2]
	}
	return out
}

// removals has a line for each API version and release: the version, the release that removes it,
// and the kinds that are removed. They are what Kubernetes' own types declare.
//
//go:embed removals.txt
var removals string

// removedBy lists the kinds that exist in one version of Kubernetes and not in a later one, and the
// release that removes each.
func removedBy(now, target semver.Version) (map[schema.GroupVersionKind]string, error) {
	out := map[schema.GroupVersionKind]string{}
	for line := range strings.Lines(removals) {
		words := strings.Fields(line)
		gv, err := schema.ParseGroupVersion(words[0])
		if err != nil {
			return nil, err
		}
		at, err := versions.ParseVersion(words[1] + ".0")
		if err != nil {
			return nil, err
		}
		if versions.AtLeast(now, at.Major, at.Minor) || !versions.AtLeast(target, at.Major, at.Minor) {
			continue
		}
		for _, kind := range words[2:] {
			out[gv.WithKind(kind)] = words[1]
		}
	}
	return out, nil
}

// observeWritten finds objects that a client wrote in an API that will be removed. They are
// requested in another version, because a request would itself count as a use of that API.
func observeWritten(ctx context.Context, c *kubeclient.Client, target semver.Version, s *Observation) error {
	gone, err := removedBy(s.Version, target)
	if err != nil || len(gone) == 0 {
		return err
	}
	lists, err := c.Resources(ctx)
	if err != nil {
		return err
	}
	asked := map[schema.GroupVersionResource]bool{}
	for gvk := range gone {
		for _, l := range lists {
			at, err := schema.ParseGroupVersion(l.GroupVersion)
			if err != nil || at.Group != gvk.Group || gone[at.WithKind(gvk.Kind)] != "" {
				continue
			}
			for _, r := range l.APIResources {
				resource := at.WithResource(r.Name)
				if r.Kind != gvk.Kind || strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "list") || asked[resource] {
					continue
				}
				asked[resource] = true
				if err := writtenObjects(ctx, c, resource, gvk.Kind, gone, s); err != nil {
					return err
				}
			}
		}
	}
	slices.SortFunc(s.Written, func(a, b Written) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	s.Written = slices.Compact(s.Written)
	return nil
}

func writtenObjects(ctx context.Context, c *kubeclient.Client, resource schema.GroupVersionResource, kind string, gone map[schema.GroupVersionKind]string, s *Observation) error {
	list, err := c.Metadata(resource, "").List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list %s of %s: %w", resource.Resource, resource.GroupVersion(), err)
	}
	for _, o := range list.Items {
		for _, f := range o.ManagedFields {
			gv, err := schema.ParseGroupVersion(f.APIVersion)
			if release := gone[gv.WithKind(kind)]; err == nil && release != "" {
				s.Written = append(s.Written, Written{kind + "/" + strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"), f.APIVersion, f.Manager, release})
			}
		}
	}
	return nil
}
