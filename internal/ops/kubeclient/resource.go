package kubeclient

import (
	"context"
	"iter"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// object is a pointer to an object of Kubernetes.
type object interface {
	runtime.Object
	GetName() string
}

// list is a pointer to a list of objects, or to a page of one.
type list interface {
	runtime.Object
	metav1.ListInterface
}

// Resource reads and changes the objects of one resource, in one namespace or in all. T is a
// pointer to an object, and L a pointer to a list of objects.
type Resource[T object, L list] struct {
	client    *Client
	resource  schema.GroupVersionResource
	namespace string // empty for all namespaces, and for a resource without namespaces
}

// Get returns an object.
func (r Resource[T, L]) Get(ctx context.Context, name string, o metav1.GetOptions) (T, error) {
	return answer[T](ctx, r.request(r.client.rest.Get()).VersionedParams(&o, r.client.parameters).Name(name))
}

// List returns the objects that match the options, or a page of them.
func (r Resource[T, L]) List(ctx context.Context, o metav1.ListOptions) (L, error) {
	return answer[L](ctx, r.request(r.client.rest.Get()).VersionedParams(&o, r.client.parameters))
}

// pageSize is the number of objects that one answer to Pages holds at most.
const pageSize = 500

// Pages lists the objects that match the options, one page after the other. It stops at the first error.
func (r Resource[T, L]) Pages(ctx context.Context, o metav1.ListOptions) iter.Seq2[L, error] {
	return func(yield func(L, error) bool) {
		for o.Limit = pageSize; ; {
			page, err := r.List(ctx, o)
			if !yield(page, err) || err != nil {
				return
			}
			if o.Continue = page.GetContinue(); o.Continue == "" {
				return
			}
		}
	}
}

// Watch reports changes of the objects that match the options.
func (r Resource[T, L]) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	return r.request(r.client.rest.Get()).VersionedParams(&o, r.client.parameters).Watch(ctx)
}

// Update replaces an object, and returns the new one.
func (r Resource[T, L]) Update(ctx context.Context, o T, options metav1.UpdateOptions) (T, error) {
	return answer[T](ctx, r.request(r.client.rest.Put()).VersionedParams(&options, r.client.parameters).Name(o.GetName()).Body(o))
}

// Patch changes an object, and returns the new one.
func (r Resource[T, L]) Patch(ctx context.Context, name string, t types.PatchType, patch []byte, o metav1.PatchOptions, subresources ...string) (T, error) {
	return answer[T](ctx, r.request(r.client.rest.Patch(t)).VersionedParams(&o, r.client.parameters).Name(name).SubResource(subresources...).Body(patch))
}

// Delete deletes an object.
func (r Resource[T, L]) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	return r.request(r.client.rest.Delete()).Name(name).Body(&o).Do(ctx).Error()
}

// request addresses a request to the resource.
func (r Resource[T, L]) request(to *rest.Request) *rest.Request {
	return to.AbsPath(root(r.resource.GroupVersion())).NamespaceIfScoped(r.namespace, r.namespace != "").Resource(r.resource.Resource)
}

// root returns the path of a version of an API group.
func root(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.String()
}

// answer sends a request, and returns the object or the list in the response.
func answer[T runtime.Object](ctx context.Context, r *rest.Request) (T, error) {
	out := reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
	switch any(out).(type) {
	case *metav1.PartialObjectMetadata:
		r.SetHeader("Accept", as("PartialObjectMetadata"))
	case *metav1.PartialObjectMetadataList:
		r.SetHeader("Accept", as("PartialObjectMetadataList"))
	}
	return out, r.Do(ctx).Into(out)
}

// as returns the Accept header for a kind of the group meta.k8s.io. A server that cannot convert to
// it returns whole objects; a client that has not registered their kind still reads the metadata.
func as(kind string) string {
	form := ";as=" + kind + ";g=meta.k8s.io;v=v1,"
	return runtime.ContentTypeProtobuf + form + runtime.ContentTypeJSON + form + runtime.ContentTypeJSON
}
