package precheck

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"kops.local/kops/internal/spec/versions"
)

// Request is an API that was asked for since a server started, and the release that removes it.
type Request struct{ Group, Version, Resource, Subresource, Removed string }

// Written is an object that a client wrote in an API that goes.
type Written struct{ Object, APIVersion, Manager, Removed string }

// Storage is how many bytes a server keeps in an etcd cluster, which it numbers.
type Storage struct {
	Cluster string
	Bytes   float64
}

// removedAPIs stops the upgrade for removed APIs that clients still request. An object once
// written in such an API is only a warning: its writer may no longer exist.
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

// lookAtRequests asks the servers behind one address, by a new connection each time, until
// as many have answered as there are machines with one.
func lookAtRequests(ctx context.Context, c kubernetes.Interface, servers int, s *Seen) error {
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
		if r, ok := c.Discovery().RESTClient().(*rest.RESTClient); ok && r.Client != nil {
			utilnet.CloseIdleConnectionsFor(r.Client.Transport)
		}
	}
	slices.SortFunc(s.Requests, func(a, b Request) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	s.Requests = slices.Compact(s.Requests)
	return nil
}

// metrics are what is read of a server's own account.
type metrics struct {
	started  string // which server it is
	requests []Request
	storage  []Storage
}

// Metrics of kube-apiserver (Kubernetes Metrics Reference) that are read.
const (
	metricRequested = "apiserver_requested_deprecated_apis{"
	metricStorage   = "apiserver_storage_size_bytes{"
	metricStarted   = "process_start_time_seconds "
)

func readMetrics(ctx context.Context, c kubernetes.Interface) (m metrics, err error) {
	body, err := c.Discovery().RESTClient().Get().AbsPath("/metrics").Stream(ctx)
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

// lifecycle is implemented by Kubernetes' own types to report the release that removes them.
type lifecycle interface {
	APILifecycleRemoved() (major, minor int)
}

// removedBy lists the kinds that are there in one version of Kubernetes, and no more in a
// later one, and the release that removes each.
func removedBy(now, target semver.Version) map[schema.GroupVersionKind]string {
	out := map[schema.GroupVersionKind]string{}
	for gvk := range scheme.Scheme.AllKnownTypes() {
		o, err := scheme.Scheme.New(gvk)
		l, ok := o.(lifecycle)
		if err != nil || !ok {
			continue
		}
		major, minor := l.APILifecycleRemoved()
		if at := (semver.Version{Major: uint64(major), Minor: uint64(minor)}); !versions.AtLeast(now, at.Major, at.Minor) && versions.AtLeast(target, at.Major, at.Minor) {
			out[gvk] = fmt.Sprintf("%d.%d", major, minor)
		}
	}
	return out
}

// lookAtWritten finds objects that a client wrote in an API that goes. They are asked for
// in another version of it, as a request would count as one of the API that goes.
func lookAtWritten(ctx context.Context, c kubernetes.Interface, target semver.Version, s *Seen) error {
	gone := removedBy(s.Version, target)
	if len(gone) == 0 {
		return nil
	}
	_, lists, err := c.Discovery().ServerGroupsAndResources()
	if err != nil && len(lists) == 0 {
		return fmt.Errorf("list the APIs: %w", err)
	}
	asked := map[string]bool{}
	for gvk := range gone {
		for _, l := range lists {
			at, err := schema.ParseGroupVersion(l.GroupVersion)
			if err != nil || at.Group != gvk.Group || gone[at.WithKind(gvk.Kind)] != "" {
				continue
			}
			for _, r := range l.APIResources {
				path := "/apis/" + l.GroupVersion + "/" + r.Name
				if r.Kind != gvk.Kind || strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "list") || asked[path] {
					continue
				}
				asked[path] = true
				if err := writtenAt(ctx, c, path, gvk.Kind, gone, s); err != nil {
					return err
				}
			}
		}
	}
	slices.SortFunc(s.Written, func(a, b Written) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	s.Written = slices.Compact(s.Written)
	return nil
}

func writtenAt(ctx context.Context, c kubernetes.Interface, path, kind string, gone map[schema.GroupVersionKind]string, s *Seen) error {
	data, err := c.Discovery().RESTClient().Get().AbsPath(path).
		SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").Do(ctx).Raw()
	if err != nil {
		return fmt.Errorf("list %s: %w", path, err)
	}
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal(data, &list); err != nil {
		return fmt.Errorf("list %s: %w", path, err)
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
