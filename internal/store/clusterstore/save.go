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
	key     string
	object  string // its name in messages
	text    string
	deleted bool // the document is to be deleted
}

// Save changes a cluster's documents from was, as they were read, to now, and returns
// them as stored. If was is nil it creates the cluster.
//
// Only documents that differ are written, and each only if it is still the version
// that was read: if another writer has changed one since, or created the same new one,
// the error has class fault.Conflict and that document is left unchanged. Nothing is written
// if unknown fields would be lost, unless Rewrite was called for their object. The config
// is written first, so that of two concurrent creations of one cluster one fails
// before it has written anything. The generation is increased with every change of a
// spec, and the creation time is set.
func (s *Store) Save(ctx context.Context, was, now *Contents) (*Contents, error) {
	out, _, err := s.save(ctx, was, now)
	return out, err
}

// save is like Save, but also returns what was written.
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
	if err == nil {
		err = now.checkKept(was, writes)
	}
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

// checkKept returns an error if a write would drop fields that this version does not know, such as
// fields of a later version.
func (c *Contents) checkKept(was *Contents, writes []write) error {
	for _, w := range writes {
		var lost []string
		for _, f := range was.unrecognized[w.key] {
			if f.Rule == compat.UnknownField && !slices.Contains(lost, f.Path) {
				lost = append(lost, f.Path)
			}
		}
		if len(lost) == 0 || w.deleted || slices.Contains(c.rewrite, w.key) {
			continue
		}
		return fault.Wrap(fault.Permanent, fmt.Errorf("change %s of cluster %s: this would drop fields that this version of kops does not know: %s; your change was not made",
			w.object, c.Spec.Name, strings.Join(lost, ", ")), "use a version that knows them, or remove them in the editor of kops edit, or with kops replace")
	}
	return nil
}

// writes lists the differences, the config first.
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
	gone, err := labelledWrites(s, "an instance group", was.Groups, now.Groups, add)
	if err != nil {
		return nil, err
	}
	out = append(out, gone...)
	if gone, err = labelledWrites(s, "a host", was.Hosts, now.Hosts, add); err != nil {
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

// labelledWrites calls add for objects with a document each, and returns the deletions. title
// is the objects' name in messages. The label with the cluster's name is not stored.
func labelledWrites[T api.Object](s *Store, title string, was, now []T, add func(key, object, text string, same bool)) (gone []write, err error) {
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
			gone = append(gone, write{key: documentKey(o), object: api.Name(o), deleted: true})
		}
	}
	return gone, nil
}

// SameCluster reports whether a Cluster differs from the one that was read in nothing that is stored.
func (s *Store) SameCluster(was, now *api.Cluster) (bool, error) {
	_, same, err := s.clusterText(was, now)
	return same, err
}

// clusterText returns the stored form of now, and whether its content is the same as that of was.
func (s *Store) clusterText(was, now *api.Cluster) (text string, same bool, err error) {
	now = now.DeepCopy()
	var old *metav1.ObjectMeta
	if was != nil {
		was = was.DeepCopy()
		old = &was.ObjectMeta
	}
	return s.text(old, &now.ObjectMeta, was, now, was == nil)
}

// labelledText returns the stored form of now, and whether its content is the same as
// that of was, which is nil for a new object.
func (s *Store) labelledText(was, now api.Object) (text string, same bool, err error) {
	now, meta := withoutClusterLabel(now)
	if was == nil {
		return s.text(nil, meta, nil, now, true)
	}
	was, old := withoutClusterLabel(was)
	return s.text(old, meta, was, now, false)
}

// withoutClusterLabel returns a copy of an object without the label with its cluster's name.
func withoutClusterLabel(o api.Object) (api.Object, *metav1.ObjectMeta) {
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

// text encodes now, whose metadata is meta, after copying the parts of the old
// metadata that are kept: the creation time, and the generation, which is increased
// if anything except the metadata differs.
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

// apply carries out the writes and updates docs.
func (s *Store) apply(ctx context.Context, cluster string, writes []write, docs map[string]document) error {
	versions := make([]store.Version, len(writes))
	one := func(ctx context.Context, i int, w write) (err error) {
		versions[i], err = s.write(ctx, cluster, w, docs[w.key].Version)
		return err
	}
	first := 0
	if writes[0].key == layout.Config {
		if err := s.checkUnclaimed(ctx, cluster, writes, docs); err != nil {
			return err
		}
		if err := one(ctx, 0, writes[0]); err != nil {
			return err
		}
		first = 1
	}
	err := forEach(ctx, writes[first:], func(ctx context.Context, i int, w write) error { return one(ctx, first+i, w) })
	if err != nil {
		return err
	}
	for i, w := range writes {
		if w.deleted {
			delete(docs, w.key)
			continue
		}
		docs[w.key] = document{Version: versions[i], Text: w.text}
	}
	return nil
}

// checkUnclaimed refuses to create a cluster whose folder contains documents without a config, such
// as those left when a cluster's config was deleted: its creation would fail halfway.
func (s *Store) checkUnclaimed(ctx context.Context, cluster string, writes []write, docs map[string]document) error {
	if len(docs) > 0 {
		return nil
	}
	found := map[string]bool{}
	for info, err := range s.folder(cluster).List(ctx, "") {
		if err != nil {
			return fmt.Errorf("look for the files of cluster %s: %w", cluster, err)
		}
		found[info.Key] = true
	}
	if found[layout.Config] { // the write of the config reports it
		return nil
	}
	for _, w := range writes {
		if found[w.key] {
			return fault.Wrap(fault.Conflict, fmt.Errorf("create cluster %s: the state store holds %s/%s, but not the Cluster that it belongs to",
				cluster, s.folder(cluster).About().URL, w.key), "put back the file config beside it, delete the folder, or use another name")
		}
	}
	return nil
}

// write carries out one change if the document still has the version that was read; an empty version means
// absent.
func (s *Store) write(ctx context.Context, cluster string, w write, was store.Version) (store.Version, error) {
	folder := s.folder(cluster)
	if w.deleted {
		err := folder.Delete(ctx, w.key, store.DeleteOptions{IfVersion: was})
		return "", s.editConflict(err, cluster, w.object, was)
	}
	v, err := folder.Put(ctx, w.key, []byte(w.text), store.PutOptions{IfAbsent: was == "", IfVersion: was})
	return v, s.editConflict(err, cluster, w.object, was)
}

// editConflict explains a conflict to a user who edits.
func (s *Store) editConflict(err error, cluster, object string, was store.Version) error {
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
