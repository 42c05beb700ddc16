package rotate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
)

// Limits for rewriting objects: how many are listed at once, and how many writes are under way.
const (
	rewritePage = 500
	rewrites    = 8
)

// Resources finds the resources that an EncryptionConfiguration names: a resource such as
// secrets or widgets.example.com, all of a group as *.apps, of the core as *., and all as *.*.
func Resources(found []*metav1.APIResourceList, names []string) ([]schema.GroupVersionResource, error) {
	var out []schema.GroupVersionResource
	matched := map[string]bool{}
	for _, list := range found {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("read the resources that the API server serves: %w", err)
		}
		for _, r := range list.APIResources {
			if strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "patch") {
				continue
			}
			own := r.Name
			if gv.Group != "" {
				own += "." + gv.Group
			}
			for _, n := range names {
				if n != own && n != "*.*" && n != "*."+gv.Group {
					continue
				}
				matched[n] = true
				if gvr := gv.WithResource(r.Name); !slices.Contains(out, gvr) {
					out = append(out, gvr)
				}
			}
		}
	}
	for _, n := range names {
		if !matched[n] && !strings.HasPrefix(n, "*.") {
			return nil, fmt.Errorf("the API server serves no resource %s, which the EncryptionConfiguration names", n)
		}
	}
	slices.SortFunc(out, func(a, b schema.GroupVersionResource) int { return strings.Compare(a.String(), b.String()) })
	return out, nil
}

// Served lists what an API server serves, in the version that it prefers of each.
func Served(d discovery.DiscoveryInterface) ([]*metav1.APIResourceList, error) {
	lists, err := discovery.ServerPreferredResources(d)
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, fmt.Errorf("ask the API server for its resources: %w", err)
	}
	return lists, nil // extension servers that do not answer store what is theirs elsewhere
}

// Objects rewrites every object of a resource, and returns how many there were. An empty patch
// changes nothing of an object, so that no concurrent change is lost and no content is read;
// the API server writes it to etcd all the same if a key other than the first has
// encrypted it (k8s.io/apiserver, storage/etcd3: stale data are never left by a write).
func Objects(ctx context.Context, client metadata.Interface, r schema.GroupVersionResource, told func(done int)) error {
	var done atomic.Int64
	g, part := errgroup.WithContext(ctx)
	g.SetLimit(rewrites)
	for next := ""; ; {
		page, err := client.Resource(r).List(part, metav1.ListOptions{Limit: rewritePage, Continue: next})
		if apierrors.IsResourceExpired(err) && next != "" {
			next = "" // the list is older than etcd's memory: from the beginning, which repeats some
			continue
		}
		if err != nil {
			if werr := g.Wait(); werr != nil {
				err = werr // it ended the listing
			}
			return fmt.Errorf("list %s: %w", r.GroupResource(), err)
		}
		for _, o := range page.Items {
			g.Go(func() error {
				_, err := client.Resource(r).Namespace(o.Namespace).Patch(part, o.Name, types.MergePatchType, []byte("{}"), metav1.PatchOptions{})
				if err != nil && !apierrors.IsNotFound(err) {
					return fmt.Errorf("rewrite %s %s/%s: %w", r.GroupResource(), o.Namespace, o.Name, err)
				}
				if n := int(done.Add(1)); told != nil && n%rewritePage == 0 {
					told(n)
				}
				return nil
			})
		}
		if next = page.Continue; next == "" {
			break
		}
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if told != nil {
		told(int(done.Load()))
	}
	return nil
}
