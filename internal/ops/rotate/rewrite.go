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

	"kops.local/kops/internal/ops/kubeclient"
)

// Limits for rewriting objects: how many are listed at once, and how many are written concurrently.
const (
	rewritePage = 500
	rewrites    = 8
)

// Resources finds the resources that an EncryptionConfiguration names: a resource such as secrets
// or widgets.example.com, all of a group as *.apps, all of the core group as *., and all resources
// as *.*.
//
// Of the versions of a resource, it returns the first. Resources of extension servers that do not
// respond are missing in found; they are stored elsewhere.
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
				gvr := gv.WithResource(r.Name)
				if !slices.ContainsFunc(out, func(o schema.GroupVersionResource) bool { return o.GroupResource() == gvr.GroupResource() }) {
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

// Objects rewrites every object of a resource. onProgress, which may be nil, receives the number
// of objects rewritten so far. An empty patch does
// not change an object, so that no concurrent change is lost and no content is read; the API server
// still writes it to etcd if a key other than the first has encrypted it (k8s.io/apiserver,
// storage/etcd3: stale data are never left by a write).
func Objects(ctx context.Context, client *kubeclient.Client, r schema.GroupVersionResource, onProgress func(done int)) error {
	var done atomic.Int64
	g, part := errgroup.WithContext(ctx)
	g.SetLimit(rewrites)
	for next := ""; ; {
		page, err := client.Metadata(r, "").List(part, metav1.ListOptions{Limit: rewritePage, Continue: next})
		if apierrors.IsResourceExpired(err) && next != "" {
			next = "" // the list has expired in etcd: start from the beginning, which repeats some objects
			continue
		}
		if err != nil {
			if werr := g.Wait(); werr != nil {
				err = werr // the failed write cancelled the listing
			}
			return fmt.Errorf("list %s: %w", r.GroupResource(), err)
		}
		for _, o := range page.Items {
			g.Go(func() error {
				_, err := client.Metadata(r, o.Namespace).Patch(part, o.Name, types.MergePatchType, []byte("{}"), metav1.PatchOptions{})
				if err != nil && !apierrors.IsNotFound(err) {
					return fmt.Errorf("rewrite %s %s/%s: %w", r.GroupResource(), o.Namespace, o.Name, err)
				}
				if n := int(done.Add(1)); onProgress != nil && n%rewritePage == 0 {
					onProgress(n)
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
	if onProgress != nil {
		onProgress(int(done.Load()))
	}
	return nil
}
