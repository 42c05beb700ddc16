package channels

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// defaultNamespace holds the records of add-ons that specify no other namespace.
	defaultNamespace = "kube-system"
	// annotationPrefix is followed by the add-on's name.
	annotationPrefix = "addons.k8s.io/"
	// systemGeneration is increased when everything must be applied again.
	systemGeneration = 1
)

// Version is the version of an add-on that a namespace records.
type Version struct {
	Channel          string `json:"channel,omitempty"`
	ID               string `json:"id,omitempty"`
	ManifestHash     string `json:"manifestHash,omitempty"`
	SystemGeneration int    `json:"systemGeneration,omitempty"`
}

// Record is everything that a namespace records about an add-on.
type Record struct {
	Version
	// Objects are the objects that this program applied, in that order, and the objects of older
	// versions that still exist; nil if another program wrote the record.
	Objects []identity `json:"objects,omitzero"`
	// Nodes is a digest of the content whose changes require that nodes are replaced;
	// empty if an older program wrote the record.
	Nodes string `json:"nodes,omitempty"`

	namespace, addon string
}

// key identifies a record.
type key struct{ namespace, addon string }

// version returns the version to record for an applied add-on.
func (a Addon) version() Version {
	return Version{Channel: a.Channel, ID: a.ID, ManifestHash: a.ManifestHash, SystemGeneration: systemGeneration}
}

// supersedes reports whether an add-on of version v must be applied where the
// recorded version is old. The channel it came from does not matter.
func (v Version) supersedes(old Version) bool {
	return v.ID != old.ID || v.ManifestHash != old.ManifestHash || old.SystemGeneration < v.SystemGeneration
}

// isComplete reports whether the add-on was ever applied completely.
func (v Version) isComplete() bool {
	return v.ID != "" || v.ManifestHash != "" || v.SystemGeneration > 0
}

func namespaces() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
}

func nodes() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
}

// records returns the records of all namespaces. An unreadable record counts as
// missing.
func (a *Applier) records(ctx context.Context) (map[key]*Record, error) {
	list, err := a.Client.Resource(namespaces()).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("read the recorded versions: %w", err)
	}
	out := map[key]*Record{}
	for _, ns := range list.Items {
		for name, text := range ns.GetAnnotations() {
			addon, ok := strings.CutPrefix(name, annotationPrefix)
			if !ok {
				continue
			}
			r := &Record{namespace: ns.GetName(), addon: addon}
			if err := json.Unmarshal([]byte(text), r); err != nil {
				a.Log.Warn("cannot read the recorded version; treating it as missing", "addon", addon, "error", err)
				continue
			}
			out[key{ns.GetName(), addon}] = r
		}
	}
	return out, nil
}

// record writes the record of an add-on.
func (a *Applier) record(ctx context.Context, addon Addon, r Record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("record the version: %w", err)
	}
	if err := a.annotate(ctx, namespaces(), addon.namespace(), annotationPrefix+addon.Name, string(text)); err != nil {
		return fmt.Errorf("record the version: %w", err)
	}
	return nil
}

// deleteRecord deletes a record.
func (a *Applier) deleteRecord(ctx context.Context, r *Record) error {
	err := a.mergeMetadata(ctx, namespaces(), r.namespace, "annotations", map[string]any{annotationPrefix + r.addon: nil})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove the recorded version: %w", err)
	}
	return nil
}

// annotate sets one annotation on a cluster-scoped object.
func (a *Applier) annotate(ctx context.Context, kind schema.GroupVersionResource, name, key, value string) error {
	return a.mergeMetadata(ctx, kind, name, "annotations", map[string]any{key: value})
}

// mergeMetadata sets labels or annotations on a cluster-scoped object; nil removes one.
func (a *Applier) mergeMetadata(ctx context.Context, kind schema.GroupVersionResource, name, field string, values map[string]any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{field: values}})
	if err != nil {
		return err
	}
	_, err = a.Client.Resource(kind).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	return err
}
