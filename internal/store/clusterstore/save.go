package clusterstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/api"
	"kops.local/kops/api/compat"
	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
)

// write is one change of a document.
type write struct {
	key    string
	object string // how messages call it
	text   string
	gone   bool // the document must be deleted
}

// Save changes a cluster's documents from was, as they were read, to now, and returns
// them as stored. A nil was creates the cluster.
//
// Only documents that differ are written, and each only if it is still the version
// that was read: when somebody else has changed one since, or made the same new one,
// the error has class fault.Conflict and that document is left as theirs. The
// config comes first, so that of two creations of one cluster one ends before it
// has written anything. Generation is raised with every change of a spec, and the
// creation time is set.
func (s *Store) Save(ctx context.Context, was, now *Contents) (*Contents, error) {
	out, _, err := s.save(ctx, was, now)
	return out, err
}

// save is Save, which also returns what was written.
func (s *Store) save(ctx context.Context, was, now *Contents) (*Contents, []write, error) {
	name := now.Spec.Name
	if err := checkName(name); err != nil {
		return nil, nil, err
	}
	if was != nil && was.Spec.Name != name {
		return nil, nil, fault.New(fault.Permanent, "the name of cluster %s cannot be changed, to %s", was.Spec.Name, name)
	}
	if was == nil {
		was = &Contents{}
	}
	writes, err := s.writes(was, now)
	if err != nil {
		return nil, nil, err
	}
	docs := pack{Documents: maps.Clone(was.docs.Documents), Remote: was.docs.Remote}
	if docs.Documents == nil {
		docs.Documents = map[string]document{}
	}
	if len(writes) > 0 {
		docs.Remote = ""
		if err := s.apply(ctx, name, writes, docs.Documents); err != nil {
			return nil, nil, err
		}
	}
	docs = s.publish(ctx, name, docs)
	out, err := s.decode(ctx, name, docs)
	if err != nil {
		return nil, nil, err
	}
	if len(writes) == 0 {
		out.listing = was.listing
	}
	return out, writes, nil
}

// writes lists what differs, the config first.
func (s *Store) writes(was, now *Contents) ([]write, error) {
	var out []write
	add := func(key, object string, text string, same bool) {
		if !same || slices.Contains(now.rewrite, key) {
			out = append(out, write{key: key, object: object, text: text})
		}
	}
	text, same, err := s.clusterText(was.Spec, now.Spec)
	if err != nil {
		return nil, err
	}
	add(layout.Config, api.Name(now.Spec), text, same)
	gone, err := labelled(s, "an instance group", was.Groups, now.Groups, add)
	if err != nil {
		return nil, err
	}
	out = append(out, gone...)
	if gone, err = labelled(s, "a host", was.Hosts, now.Hosts, add); err != nil {
		return nil, err
	}
	out = append(out, gone...)
	before, err := compat.Encode(api.V1Alpha2, was.Additional...)
	if err != nil {
		return nil, err
	}
	after, err := compat.Encode(api.V1Alpha2, now.Additional...)
	if err != nil {
		return nil, err
	}
	add(layout.Additional, "the additional objects", string(after), was.Spec != nil && string(before) == string(after))
	return out, nil
}

// labelled tells add of objects with a document each, and returns those that go. title
// is how messages call one. The label that names the cluster is not stored.
func labelled[T api.Object](s *Store, title string, was, now []T, add func(key, object, text string, same bool)) (gone []write, err error) {
	before := map[string]T{}
	for _, o := range was {
		before[o.GetName()] = o
	}
	seen := map[string]bool{}
	for _, o := range now {
		name := o.GetName()
		if err := store.CheckKey(name); err != nil || seen[name] || strings.Contains(name, "/") {
			return nil, fault.New(fault.Permanent, "%q cannot be the name of %s: it is taken or malformed", name, title)
		}
		seen[name] = true
		var old api.Object
		if b, ok := before[name]; ok {
			old = b
		}
		text, same, err := s.labelledText(old, o)
		if err != nil {
			return nil, err
		}
		add(documentKey(o), api.Name(o), text, same)
	}
	for _, o := range was {
		if !seen[o.GetName()] {
			gone = append(gone, write{key: documentKey(o), object: api.Name(o), gone: true})
		}
	}
	return gone, nil
}

// clusterText is the stored form of now, and whether it says the same as was.
func (s *Store) clusterText(was, now *api.Cluster) (text string, same bool, err error) {
	now = now.DeepCopy()
	var old *metav1.ObjectMeta
	if was != nil {
		was = was.DeepCopy()
		old = &was.ObjectMeta
	}
	return s.text(old, &now.ObjectMeta, was, now, was == nil)
}

// labelledText is the stored form of now, and whether it says the same as was, which is
// nil for a new object.
func (s *Store) labelledText(was, now api.Object) (text string, same bool, err error) {
	now, meta := unlabelled(now)
	if was == nil {
		return s.text(nil, meta, nil, now, true)
	}
	was, old := unlabelled(was)
	return s.text(old, meta, was, now, false)
}

// unlabelled is a copy of an object without the label that names its cluster.
func unlabelled(o api.Object) (api.Object, *metav1.ObjectMeta) {
	var meta *metav1.ObjectMeta
	switch x := o.(type) {
	case *api.InstanceGroup:
		x = x.DeepCopy()
		o, meta = x, &x.ObjectMeta
	case *api.Host:
		x = x.DeepCopy()
		o, meta = x, &x.ObjectMeta
	}
	delete(meta.Labels, api.LabelCluster)
	return o, meta
}

// text encodes now, whose metadata is meta, after giving it what is kept of the
// old metadata: the creation time, and the generation, one higher when anything
// but the metadata differs.
func (s *Store) text(old, meta *metav1.ObjectMeta, was, now api.Object, isNew bool) (string, bool, error) {
	if isNew {
		if meta.CreationTimestamp.IsZero() {
			meta.CreationTimestamp = metav1.NewTime(s.cfg.Now().UTC())
		}
		text, err := compat.Encode(api.V1Alpha2, now)
		return string(text), false, err
	}
	if meta.CreationTimestamp.IsZero() {
		meta.CreationTimestamp = old.CreationTimestamp
	}
	meta.Generation = old.Generation
	before, err := compat.Encode(api.V1Alpha2, was)
	if err != nil {
		return "", false, err
	}
	after, err := compat.Encode(api.V1Alpha2, now)
	if err != nil || string(before) == string(after) {
		return string(after), true, err
	}
	wanted := *meta
	*meta = *old
	specOnly, err := compat.Encode(api.V1Alpha2, now)
	if err != nil {
		return "", false, err
	}
	*meta = wanted
	if string(specOnly) != string(before) {
		meta.Generation++
	}
	after, err = compat.Encode(api.V1Alpha2, now)
	return string(after), false, err
}

// apply carries out the writes and keeps docs up to date.
func (s *Store) apply(ctx context.Context, cluster string, writes []write, docs map[string]document) error {
	versions := make([]store.Version, len(writes))
	one := func(ctx context.Context, i int, w write) (err error) {
		versions[i], err = s.write(ctx, cluster, w, docs[w.key].Version)
		return err
	}
	first := 0
	if writes[0].key == layout.Config {
		if err := one(ctx, 0, writes[0]); err != nil {
			return err
		}
		first = 1
	}
	err := each(ctx, writes[first:], func(ctx context.Context, i int, w write) error { return one(ctx, first+i, w) })
	if err != nil {
		return err
	}
	for i, w := range writes {
		if w.gone {
			delete(docs, w.key)
			continue
		}
		docs[w.key] = document{Version: versions[i], Text: w.text}
	}
	return nil
}

// write carries out one change if the document is still the version that was read; an empty one means absent.
func (s *Store) write(ctx context.Context, cluster string, w write, was store.Version) (store.Version, error) {
	folder := s.folder(cluster)
	if w.gone {
		err := folder.Delete(ctx, w.key, store.DeleteOptions{IfVersion: was})
		return "", s.lost(err, cluster, w.object, was)
	}
	v, err := folder.Put(ctx, w.key, []byte(w.text), store.PutOptions{IfAbsent: was == "", IfVersion: was})
	return v, s.lost(err, cluster, w.object, was)
}

// lost explains a conflict to somebody who edits.
func (s *Store) lost(err error, cluster, object string, was store.Version) error {
	switch {
	case err == nil:
		return nil
	case !fault.Is(err, fault.Conflict):
		return fmt.Errorf("write %s of cluster %s: %w", object, cluster, err)
	case was == "":
		return fault.Wrap(fault.Conflict, fmt.Errorf("create %s of cluster %s: %w", object, cluster, err),
			"change the existing object, or use another name")
	}
	return fault.Wrap(fault.Conflict, fmt.Errorf("change %s of cluster %s: %w; your change was not made", object, cluster, err),
		"read it again and repeat the change")
}
