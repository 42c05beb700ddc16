package channels

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/labels"
)

// fieldManager is the owner of the fields that an add-on sets.
const fieldManager = "kops"

// resource returns the API endpoint for objects of a kind; namespace is empty for cluster-scoped kinds.
func (a *Applier) resource(kind schema.GroupKind, version, namespace string) (dynamic.ResourceInterface, bool, error) {
	var versions []string
	if version != "" {
		versions = []string{version}
	}
	m, err := a.Mapper.RESTMapping(kind, versions...)
	if meta.IsNoMatchError(err) {
		a.Mapper.Reset() // the kind may have been defined since the last discovery
		m, err = a.Mapper.RESTMapping(kind, versions...)
	}
	if err != nil {
		return nil, false, err
	}
	r := a.Client.Resource(m.Resource)
	if m.Scope.Name() != meta.RESTScopeNameNamespace {
		return r, false, nil
	}
	if namespace == "" {
		return r, true, nil
	}
	return r.Namespace(namespace), true, nil
}

// find returns the API endpoint for an object. A namespaced object without a namespace gets "default".
func (a *Applier) find(o *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	gvk := o.GroupVersionKind()
	r, namespaced, err := a.resource(gvk.GroupKind(), gvk.Version, o.GetNamespace())
	if err != nil {
		return nil, err
	}
	if namespaced && o.GetNamespace() == "" {
		o.SetNamespace(metav1.NamespaceDefault)
		return a.find(o)
	}
	return r, nil
}

// existing returns an object as it is in the cluster, or nil if it does not exist.
func existing(ctx context.Context, r dynamic.ResourceInterface, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	now, err := r.Get(ctx, o.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", nameOf(o), err)
	}
	return now, nil
}

// applySet applies every object. If one fails, the others are still applied;
// failed ones are retried as long as some succeed, because an object may depend on
// one that comes later.
func (a *Applier) applySet(ctx context.Context, objects []*unstructured.Unstructured) error {
	for {
		var failed []*unstructured.Unstructured
		var errs []error
		for _, o := range objects {
			if err := a.applyObject(ctx, o); err != nil {
				failed, errs = append(failed, o), append(errs, fmt.Errorf("apply %s: %w", nameOf(o), err))
			}
		}
		if len(failed) == 0 || len(failed) == len(objects) || ctx.Err() != nil {
			return errors.Join(errs...)
		}
		objects = failed
	}
}

func (a *Applier) applyObject(ctx context.Context, o *unstructured.Unstructured) error {
	r, err := a.find(o)
	if err != nil {
		return err
	}
	if users, err := a.isUsers(ctx, r, o); err != nil || users {
		return err
	}
	apply := func() error {
		_, err := r.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
		return err
	}
	if err = apply(); !apierrors.IsInvalid(err) {
		return err
	}
	room, merr := a.makeRoom(ctx, r, o)
	if merr != nil || !room {
		return errors.Join(err, merr)
	}
	return apply()
}

// isUsers reports whether an object that an add-on of kops would change is a user's: a ConfigMap or a
// Secret that exists, but that has the labels of no add-on of kops. Add-ons of users have no labels in
// their files, and may change what exists.
func (a *Applier) isUsers(ctx context.Context, r dynamic.ResourceInterface, o *unstructured.Unstructured) (bool, error) {
	kind := o.GroupVersionKind().GroupKind()
	if kind.Group != "" || kind.Kind != "ConfigMap" && kind.Kind != "Secret" || o.GetLabels()[labels.ManagedBy] != labels.Kops {
		return false, nil
	}
	now, err := existing(ctx, r, o)
	if err != nil || now == nil {
		return false, err
	}
	if l := now.GetLabels(); l[labels.ManagedBy] == labels.Kops || l[labels.Addon] == o.GetLabels()[labels.Addon] {
		return false, nil
	}
	a.Log.Warn("not changed: it does not belong to an add-on of kops, so it is a user's", "addon", o.GetLabels()[labels.Addon], "object", nameOf(o))
	return true, nil
}

// checkSet returns which objects do not work yet.
func (a *Applier) checkSet(ctx context.Context, objects []*unstructured.Unstructured) error {
	var errs []error
	for _, o := range objects {
		if !hasHealth(o) {
			continue
		}
		r, err := a.find(o)
		if err != nil {
			return err
		}
		now, err := r.Get(ctx, o.GetName(), metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("read %s: %w", nameOf(o), err)
		}
		reason, err := whyUnhealthy(now)
		if err != nil {
			return err
		}
		if reason != "" {
			errs = append(errs, fmt.Errorf("%s: %s", nameOf(o), reason))
		}
	}
	return errors.Join(errs...)
}

// hasHealth reports whether an object has a health status at all.
func hasHealth(o *unstructured.Unstructured) bool {
	reason, err := whyUnhealthy(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": o.GetAPIVersion(), "kind": o.GetKind(),
		"metadata": map[string]any{"name": o.GetName(), "generation": int64(1)},
	}})
	return err != nil || reason != ""
}

// identity identifies an object. Its text form is kind.group/namespace/name.
type identity struct {
	kind            schema.GroupKind
	namespace, name string
}

// MarshalText implements encoding.TextMarshaler.
func (i identity) MarshalText() ([]byte, error) {
	return []byte(i.kind.String() + "/" + i.namespace + "/" + i.name), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (i *identity) UnmarshalText(text []byte) error {
	parts := strings.Split(string(text), "/")
	if len(parts) != 3 || parts[0] == "" || parts[2] == "" {
		return fmt.Errorf("%q is not kind.group/namespace/name", text)
	}
	*i = identity{schema.ParseGroupKind(parts[0]), parts[1], parts[2]}
	return nil
}

func identify(o *unstructured.Unstructured) identity {
	return identity{o.GroupVersionKind().GroupKind(), o.GetNamespace(), o.GetName()}
}

// prune removes an add-on's objects that its manifest does not contain, of the
// kinds that the add-on lists for pruning. Kinds that the cluster does not know
// have no objects. However wide its selectors are, objects labelled as another
// add-on's stay, and so do objects whose removal would also remove objects of
// other owners.
func (a *Applier) prune(ctx context.Context, addon Addon, objects []*unstructured.Unstructured) error {
	if addon.Prune == nil {
		return nil
	}
	keep := map[identity]bool{}
	for _, o := range objects {
		if _, err := a.find(o); err != nil && !meta.IsNoMatchError(err) { // sets a missing namespace
			return err
		}
		keep[identify(o)] = true
	}
	var errs []error
	for _, k := range addon.Prune.Kinds {
		if err := a.pruneKind(ctx, addon.Name, k, keep); err != nil {
			errs = append(errs, fmt.Errorf("prune objects of kind %s: %w", k.Kind, err))
		}
	}
	return errors.Join(errs...)
}

func (a *Applier) pruneKind(ctx context.Context, addon string, k api.PruneKind, keep map[identity]bool) error {
	kind := schema.GroupKind{Group: k.Group, Kind: k.Kind}
	namespaces := k.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	for _, ns := range namespaces {
		r, _, err := a.resource(kind, "", ns)
		if meta.IsNoMatchError(err) {
			return nil
		}
		if err != nil {
			return err
		}
		list, err := r.List(ctx, metav1.ListOptions{LabelSelector: k.LabelSelector, FieldSelector: k.FieldSelector})
		if err != nil {
			return err
		}
		for i := range list.Items {
			o := &list.Items[i]
			of := o.GetLabels()[labels.Addon]
			if keep[identity{kind, o.GetNamespace(), o.GetName()}] || o.GetDeletionTimestamp() != nil || of != "" && of != addon {
				continue
			}
			if isKept(o) {
				a.Log.Warn("kept, because other objects than the add-on's may depend on it; delete it once none does", "addon", addon, "object", nameOf(o))
				continue
			}
			if err := a.remove(ctx, kind, o); err != nil {
				return err
			}
			a.Log.Info("removed", "addon", addon, "object", nameOf(o))
		}
	}
	return nil
}

// remove deletes an object in the version that was read, and its dependents.
func (a *Applier) remove(ctx context.Context, kind schema.GroupKind, o *unstructured.Unstructured) error {
	r, _, err := a.resource(kind, "", o.GetNamespace())
	if err != nil {
		return err
	}
	background, uid := metav1.DeletePropagationBackground, types.UID(o.GetUID())
	err = r.Delete(ctx, o.GetName(), metav1.DeleteOptions{PropagationPolicy: &background, Preconditions: &metav1.Preconditions{UID: &uid}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete %s: %w", nameOf(o), err)
	}
	return nil
}
