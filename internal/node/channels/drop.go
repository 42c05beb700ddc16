package channels

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/engine/fault"
)

// label marks the objects as the add-on's own, except those that are already marked as another's.
func label(addon string, objects []*unstructured.Unstructured) {
	for _, o := range objects {
		own, _, err := unstructured.NestedStringMap(o.Object, "metadata", "labels")
		if err != nil || own[labels.Addon] != "" { // the API server reports what is wrong
			continue
		}
		if own == nil {
			own = map[string]string{}
		}
		own[labels.Addon] = addon
		o.SetLabels(own)
	}
}

// droppedAddons returns the add-ons that this program applied from one of the channels
// and that none of the channels lists now. A channel without add-ons is an error:
// it is far more likely a lost file than the wish to remove everything.
func droppedAddons(channels map[string][]Addon, records map[key]*Record) ([]State, error) {
	listed := map[string]bool{}
	for _, all := range channels {
		for _, addon := range all {
			listed[addon.Name] = true
		}
	}
	var out []State
	lost := map[string][]string{}
	for _, r := range records {
		all, ours := channels[r.Channel]
		switch {
		case !ours || r.Objects == nil || listed[r.addon]:
		case len(all) == 0 || all[0].isManifest:
			lost[r.Channel] = append(lost[r.Channel], r.addon)
		default:
			s := State{Addon: Addon{Channel: r.Channel}, Recorded: r, Dropped: true}
			s.Addon.Name, s.Addon.Namespace = r.addon, r.namespace
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b State) int { return strings.Compare(a.Addon.Name, b.Addon.Name) })
	var errs []error
	for _, url := range slices.Sorted(maps.Keys(lost)) {
		slices.Sort(lost[url])
		errs = append(errs, fault.New(fault.Permanent, "the channel %s lists no add-on, but %s was applied from it: nothing is removed; restore the channel, or list the add-ons with empty manifests that prune",
			url, strings.Join(lost[url], ", ")))
	}
	return out, errors.Join(errs...)
}

// isFromOtherChannel reports whether an add-on that is up to date was applied from a channel
// that this pass does not read: it then belongs to the channel that lists it now.
func (s State) isFromOtherChannel(urls []string) bool {
	r := s.Recorded
	return !s.Dropped && r != nil && r.Objects != nil && r.Channel != s.Addon.Channel && !slices.ContainsFunc(urls, func(u string) bool { return placeOf(u) == r.Channel })
}

// announce records, before anything is applied, which objects will be the
// add-on's, so that it can be removed even if it never runs. The version stays
// outdated until the add-on runs.
func (a *Applier) announce(ctx context.Context, p pending) error {
	r := Record{Version: Version{Channel: p.state.Addon.Channel}, Objects: a.identities(p)}
	if old := p.state.Recorded; old != nil {
		r.ID, r.ManifestHash = old.ID, old.ManifestHash
		r.Objects = union(r.Objects, old.Objects)
		if old.Version == r.Version && slices.Equal(old.Objects, r.Objects) {
			return nil
		}
	}
	err := a.record(ctx, p.state.Addon, r)
	if apierrors.IsNotFound(err) { // the add-on itself contains the namespace
		return nil
	}
	return err
}

// inventory lists the objects of an applied add-on, and those of older versions that still
// exist.
func (a *Applier) inventory(ctx context.Context, p pending) ([]identity, error) {
	out := a.identities(p)
	if p.state.Recorded == nil {
		return out, nil
	}
	for _, i := range p.state.Recorded.Objects {
		if slices.Contains(out, i) {
			continue
		}
		o, err := a.ownedObject(ctx, p.state.Addon.Name, i)
		if err != nil {
			return nil, err
		}
		if o != nil {
			out = append(out, i)
		}
	}
	return out, nil
}

// identities lists the objects that the applier creates for an add-on. It never returns nil.
func (a *Applier) identities(p pending) []identity {
	out := []identity{}
	if p.state.Addon.NeedsPKI {
		secret, issuer := keypairObjects(p.state.Addon.Name)
		out = append(out, identify(secret), identify(issuer))
	}
	for _, o := range p.objects {
		_, _ = a.find(o) // sets a missing namespace; applying the object reports what is wrong
		out = append(out, identify(o))
	}
	return out
}

// union returns a followed by the elements that only b has.
func union(a, b []identity) []identity {
	for _, i := range b {
		if !slices.Contains(a, i) {
			a = append(a, i)
		}
	}
	return a
}

// ownedObject returns an object of an add-on, or nil if it does not exist or is not, or
// no longer, labelled as the add-on's.
func (a *Applier) ownedObject(ctx context.Context, addon string, i identity) (*unstructured.Unstructured, error) {
	r, namespaced, err := a.resource(i.kind, "", i.namespace)
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err == nil && namespaced && i.namespace == "" { // its kind was unknown when it was recorded
		i.namespace = metav1.NamespaceDefault
		return a.ownedObject(ctx, addon, i)
	}
	var o *unstructured.Unstructured
	if err == nil {
		o, err = r.Get(ctx, i.name, metav1.GetOptions{})
	}
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for %s %s/%s: %w", i.kind.Kind, i.namespace, i.name, err)
	}
	if o.GetLabels()[labels.Addon] != addon {
		return nil, nil
	}
	return o, nil
}

// isKept reports whether an object is never removed, because objects created by others would
// be removed with it.
func isKept(o *unstructured.Unstructured) bool {
	switch o.GroupVersionKind().GroupKind().String() {
	case "Namespace", "CustomResourceDefinition.apiextensions.k8s.io", "PersistentVolume", "PersistentVolumeClaim":
		return true
	}
	return false
}

// objectsToRemove returns the objects of a dropped add-on to remove, in reverse order of application,
// and those that stay.
func (a *Applier) objectsToRemove(ctx context.Context, s State) (removed, stay []*unstructured.Unstructured, err error) {
	for _, i := range slices.Backward(s.Recorded.Objects) {
		o, err := a.ownedObject(ctx, s.Addon.Name, i)
		if err != nil {
			return nil, nil, err
		}
		switch {
		case o == nil:
		case isKept(o):
			stay = append(stay, o)
		default:
			removed = append(removed, o)
		}
	}
	return removed, stay, nil
}

// PreviewRemoval returns the objects of a dropped add-on that a pass would remove, and
// those that it would keep; both as kind, namespace and name.
func (a *Applier) PreviewRemoval(ctx context.Context, s State) (removed, stay []string, err error) {
	gone, left, err := a.objectsToRemove(ctx, s)
	for _, o := range gone {
		removed = append(removed, nameOf(o))
	}
	for _, o := range left {
		stay = append(stay, nameOf(o))
	}
	return removed, stay, err
}

// drop removes the objects of an add-on, and then its record. An object with
// finalizers is removed first, on its own: its controller may be among the other
// objects.
func (a *Applier) drop(ctx context.Context, s State) error {
	removed, stay, err := a.objectsToRemove(ctx, s)
	if err != nil {
		return err
	}
	held := slices.DeleteFunc(slices.Clone(removed), func(o *unstructured.Unstructured) bool { return len(o.GetFinalizers()) == 0 })
	if len(held) > 0 {
		removed = held
	}
	var errs []error
	for _, o := range removed {
		if o.GetDeletionTimestamp() != nil {
			continue
		}
		if err := a.remove(ctx, o.GroupVersionKind().GroupKind(), o); err != nil {
			errs = append(errs, err)
			continue
		}
		a.Log.Info("removed", "addon", s.Addon.Name, "object", nameOf(o))
	}
	if len(held) > 0 {
		errs = append(errs, fault.New(fault.NotYet, "the channel no longer lists it; the rest is removed once %s is gone, which has the finalizers %s", nameOf(held[0]), strings.Join(held[0].GetFinalizers(), ", ")))
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	for _, o := range stay {
		a.Log.Warn("kept, because other objects than the add-on's may depend on it; delete it once none does", "addon", s.Addon.Name, "object", nameOf(o))
	}
	if err := a.deleteRecord(ctx, s.Recorded); err != nil {
		return err
	}
	a.Log.Info("removed the add-on, which its channel no longer lists", "addon", s.Addon.Name, "channel", s.Addon.Channel)
	return nil
}
