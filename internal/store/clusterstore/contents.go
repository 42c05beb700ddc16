package clusterstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"kops.local/kops/api"
	"kops.local/kops/api/compat"
	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/store"
)

// Contents are the documents of one cluster, as read or in their desired state.
// Values returned by Load and Save must not be changed; change a Clone.
type Contents struct {
	Spec   *api.Cluster
	Groups []*api.InstanceGroup // in the order of their names
	// Hosts are the user's machines that were enrolled, in the order of their names.
	Hosts []*api.Host
	// Additional are further Kubernetes objects for the cluster.
	Additional []api.Object
	// Warnings list the parts of the documents that were not understood, and dropped.
	Warnings diag.List

	docs         pack                 // the texts that were read, and their versions
	unrecognized map[string]diag.List // their unread parts, by document
	rewrite      []string             // documents to write even if their content is the same
	listing      []store.Info         // of the cluster's folder in the state store; nil when unknown
}

// Clone returns contents that can be changed and then saved with Save(ctx, c, clone).
func (c *Contents) Clone() *Contents {
	out := *c
	out.Spec = c.Spec.DeepCopy()
	out.Groups = make([]*api.InstanceGroup, len(c.Groups))
	for i, g := range c.Groups {
		out.Groups[i] = g.DeepCopy()
	}
	out.Hosts = make([]*api.Host, len(c.Hosts))
	for i, h := range c.Hosts {
		out.Hosts[i] = h.DeepCopy()
	}
	out.Additional = slices.Clone(c.Additional)
	out.rewrite = slices.Clone(c.rewrite)
	return &out
}

// SelectGroups returns the groups with the given names, or all groups if no names are given.
func (c *Contents) SelectGroups(names ...string) ([]*api.InstanceGroup, error) {
	if len(names) == 0 {
		return c.Groups, nil
	}
	var out []*api.InstanceGroup
	for _, n := range names {
		g := c.Group(n)
		if g == nil {
			return nil, c.groupNotFound(n)
		}
		out = append(out, g)
	}
	return out, nil
}

func (c *Contents) groupNotFound(name string) error {
	var known []string
	for _, g := range c.Groups {
		known = append(known, g.Name)
	}
	if near := diag.Nearest(name, known); near != "" {
		return fmt.Errorf("instancegroup %q not found in cluster %s; did you mean %q?", name, c.Spec.Name, near)
	}
	return fmt.Errorf("instancegroup %q not found in cluster %s; it has %s", name, c.Spec.Name, strings.Join(known, ", "))
}

// Rewrite makes Save write the document of an object again even if its content has not
// changed, and drop unknown parts of its text.
func (c *Contents) Rewrite(o api.Object) { c.rewrite = append(c.rewrite, documentKey(o)) }

// Unrecognized returns the parts of an object's text that were not understood, and the text; the
// list is empty when all of it was understood.
func (c *Contents) Unrecognized(o api.Object) (diag.List, string) {
	key := documentKey(o)
	return c.unrecognized[key], c.docs.Documents[key].Text
}

// documentKey returns the key of an object below its cluster's folder.
func documentKey(o api.Object) string {
	switch o.(type) {
	case *api.Cluster:
		return layout.Config
	case *api.InstanceGroup:
		return layout.Groups + o.GetName()
	case *api.Host:
		return layout.Hosts + o.GetName()
	}
	return layout.Additional
}

// SameDocument reports whether an object's document is the same in both contents, and was not
// written in between.
func (c *Contents) SameDocument(o *Contents, object api.Object) bool {
	key := documentKey(object)
	return c.docs.Documents[key] == o.docs.Documents[key]
}

// Group returns the group with the given name, or nil.
func (c *Contents) Group(name string) *api.InstanceGroup {
	for _, g := range c.Groups {
		if g.Name == name {
			return g
		}
	}
	return nil
}

// Host returns the host with the given name, or nil.
func (c *Contents) Host(name string) *api.Host {
	for _, h := range c.Hosts {
		if h.Name == name {
			return h
		}
	}
	return nil
}

// Load reads a cluster. It takes one listing of the cluster's folder, and for what
// the local cache does not have, one request if the store has a current pack, or else
// one per document. If the cluster does not exist, the error has class fault.Gone.
func (s *Store) Load(ctx context.Context, cluster string) (*Contents, error) {
	docs, files, err := s.documents(ctx, cluster)
	if err != nil {
		return nil, err
	}
	return s.contents(ctx, cluster, docs, files)
}

// LoadWith is like Load, but uses another text instead of the stored text of an object,
// which may be unreadable. Save then writes the object.
func (s *Store) LoadWith(ctx context.Context, cluster string, o api.Object, text string) (*Contents, error) {
	docs, files, err := s.documents(ctx, cluster)
	if err != nil {
		return nil, err
	}
	docs.Documents = maps.Clone(docs.Documents)
	docs.Documents[documentKey(o)] = document{Version: docs.Documents[documentKey(o)].Version, Text: text}
	c, err := s.contents(ctx, cluster, docs, files)
	if err == nil {
		c.Rewrite(o)
	}
	return c, err
}

// Text returns the stored text of an object, unmodified. If it is not stored, the
// error has class fault.Gone.
func (s *Store) Text(ctx context.Context, cluster string, o api.Object) (string, error) {
	docs, _, err := s.documents(ctx, cluster)
	if err != nil {
		return "", err
	}
	d, ok := docs.Documents[documentKey(o)]
	if !ok {
		return "", fault.New(fault.Gone, "%s not found in cluster %s", api.Name(o), cluster)
	}
	return d.Text, nil
}

func (s *Store) contents(ctx context.Context, cluster string, docs pack, files []store.Info) (*Contents, error) {
	c, err := s.decode(ctx, cluster, docs)
	if err != nil {
		return nil, err
	}
	c.listing = files
	return c, nil
}

// documents reads the documents of a cluster, and lists its folder.
func (s *Store) documents(ctx context.Context, cluster string) (docs pack, files []store.Info, err error) {
	if err := checkName(cluster); err != nil {
		return docs, nil, err
	}
	have := s.readCache(ctx, cluster)
	var remote *pack
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		files, err = collect(gctx, s.folder(cluster), "")
		return err
	})
	if len(have.Documents) == 0 {
		g.Go(func() error {
			remote = s.readPack(gctx, cluster)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return docs, nil, fmt.Errorf("read cluster %s: %w", cluster, err)
	}
	var wanted []store.Info
	for _, f := range files {
		if isDocument(f.Key) {
			wanted = append(wanted, f)
		}
	}
	if !slices.ContainsFunc(wanted, func(o store.Info) bool { return o.Key == layout.Config }) {
		return docs, nil, s.notFound(ctx, cluster)
	}
	if docs, err = s.fetch(ctx, cluster, wanted, have, remote); err != nil {
		return docs, nil, fmt.Errorf("read cluster %s: %w", cluster, err)
	}
	return docs, files, nil
}

// isDocument reports whether a file of a cluster's folder is one of its documents.
func isDocument(key string) bool {
	folder, name := path.Split(key)
	return key == layout.Config || key == layout.Additional || name != "" && (folder == layout.Groups || folder == layout.Hosts)
}

func (s *Store) notFound(ctx context.Context, cluster string) error {
	return fault.Wrap(fault.Gone, fmt.Errorf("cluster %q not found in the state store %s", cluster, s.URL()), s.nearest(ctx, cluster))
}

// nearest returns the remedy for a cluster that does not exist.
func (s *Store) nearest(ctx context.Context, cluster string) string {
	remedy := "to list the clusters: kops get clusters"
	if names, err := s.Names(ctx); err == nil { // without a listing there is no hint
		if near := diag.Nearest(cluster, names); near != "" {
			remedy = fmt.Sprintf("did you mean %s? %s", near, remedy)
		}
	}
	return remedy
}

// decode decodes the documents of a cluster.
func (s *Store) decode(ctx context.Context, cluster string, docs pack) (*Contents, error) {
	c := &Contents{docs: docs, unrecognized: map[string]diag.List{}}
	folder := s.folder(cluster)
	config, ok := docs.Documents[layout.Config]
	if !ok {
		return nil, s.notFound(ctx, cluster)
	}
	var err error
	var unread diag.List
	if c.Spec, err = s.decodeConfig(cluster, config.Text, &unread); err != nil {
		return nil, err
	}
	c.unrecognized[layout.Config], c.Warnings = unread, append(c.Warnings, unread...)
	if c.Groups, err = decodeFolder[*api.InstanceGroup](c, cluster, folder, layout.Groups); err != nil {
		return nil, err
	}
	if c.Hosts, err = decodeFolder[*api.Host](c, cluster, folder, layout.Hosts); err != nil {
		return nil, err
	}
	additional, warnings, err := compat.Decode([]byte(docs.Documents[layout.Additional].Text),
		compat.Options{File: store.URL(folder, layout.Additional), Lenient: true})
	if err != nil {
		return nil, err
	}
	c.Additional, c.Warnings = additional, append(c.Warnings, warnings...)
	return c, nil
}

// decodeFolder decodes the objects that each have a document in a folder, in the order
// of their names, and labels them with their cluster's name.
func decodeFolder[T api.Object](c *Contents, cluster string, in store.Store, prefix string) ([]T, error) {
	var out []T
	for _, key := range slices.Sorted(maps.Keys(c.docs.Documents)) {
		if !strings.HasPrefix(key, prefix) {
			continue
		}
		var unread diag.List
		o, err := decodeNamed[T](c.docs.Documents[key].Text, path.Base(key), store.URL(in, key), &unread)
		if _, isGroup := any(o).(*api.InstanceGroup); isGroup {
			err = unreadable(err, "instancegroup --name "+cluster+" "+path.Base(key))
		}
		if err != nil {
			return nil, unreadable(err, "")
		}
		c.unrecognized[key], c.Warnings = unread, append(c.Warnings, unread...)
		labels := o.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[api.LabelCluster] = cluster
		o.SetLabels(labels)
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b T) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return out, nil
}

// decodeConfig decodes the config of a cluster, and fills in where its files are.
func (s *Store) decodeConfig(cluster, text string, warnings *diag.List) (*api.Cluster, error) {
	folder := s.folder(cluster)
	c, err := decodeNamed[*api.Cluster](text, cluster, store.URL(folder, layout.Config), warnings)
	if err == nil && c.Spec.ConfigStore.Base == "" {
		c.Spec.ConfigStore.Base = folder.About().URL
	}
	return c, unreadable(err, "cluster "+cluster)
}

// unreadable adds a remedy to the error of an object that cannot be read. edit contains the arguments
// of kops edit for the object, or is empty if kops edit cannot open it.
func unreadable(err error, edit string) error {
	switch {
	case fault.Remedy(err) != "":
		return err
	case edit == "":
		return fault.Wrap(fault.Permanent, err, restoreFile)
	}
	return fault.Wrap(fault.Permanent, err, "correct it with kops edit "+edit+", or "+restoreFile)
}

// decodeNamed decodes a document that must contain one object with the given name.
func decodeNamed[T api.Object](text, name, url string, warnings *diag.List) (T, error) {
	o, w, err := compat.DecodeOne[T]([]byte(text), compat.Options{File: url, Lenient: true})
	*warnings = append(*warnings, w...)
	if err != nil {
		return o, err
	}
	if o.GetName() == "" {
		o.SetName(name)
	}
	if o.GetName() != name {
		return o, diag.List{{File: url, Path: "metadata.name", Value: o.GetName(), Rule: "name",
			Message: "must be the name under which the file is stored, " + strconv.Quote(name)}}
	}
	return o, nil
}

// Clusters reads the config of every cluster, in the order of their names. One that
// cannot be read is left out, with a warning. It takes one listing of the whole
// store, and one request for each config that is not in the local cache.
func (s *Store) Clusters(ctx context.Context) ([]*api.Cluster, diag.List, error) {
	found, err := s.configs(ctx)
	if err != nil {
		return nil, nil, err
	}
	type result struct {
		cluster  *api.Cluster
		warnings diag.List
	}
	results := make([]result, len(found))
	err = forEach(ctx, found, func(ctx context.Context, i int, info store.Info) error {
		r := &results[i]
		name := clusterName(info.Key)
		text, err := s.config(ctx, name, info)
		if err == nil {
			r.cluster, err = s.decodeConfig(name, text, &r.warnings)
		}
		if err != nil {
			r.cluster, r.warnings = nil, diag.List{{Object: "Cluster/" + name, Rule: "unreadable", Warning: true,
				Message: "left out: " + err.Error(), Remedy: fault.Remedy(err)}}
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, nil, fmt.Errorf("read the clusters of %s: %w", s.URL(), err)
	}
	var out []*api.Cluster
	var warnings diag.List
	for _, r := range results {
		if r.cluster != nil {
			out = append(out, r.cluster)
		}
		warnings = append(warnings, r.warnings...)
	}
	return out, warnings, nil
}

// ClustersNamed reads the configs of the named clusters, in their order, with one request for each.
// If one does not exist, the error has class fault.Gone; one that cannot be read is an error, too.
func (s *Store) ClustersNamed(ctx context.Context, names ...string) ([]*api.Cluster, diag.List, error) {
	out := make([]*api.Cluster, len(names))
	warnings := make([]diag.List, len(names))
	err := forEach(ctx, names, func(ctx context.Context, i int, name string) error {
		if err := checkName(name); err != nil {
			return err
		}
		text, _, err := s.folder(name).Get(ctx, layout.Config)
		switch {
		case fault.Is(err, fault.Gone):
			return fault.Wrap(fault.Gone, fmt.Errorf("cluster not found %q", name), s.nearest(ctx, name))
		case err != nil:
			return fmt.Errorf("read cluster %s: %w", name, err)
		}
		out[i], err = s.decodeConfig(name, string(text), &warnings[i])
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return out, slices.Concat(warnings...), nil
}

// config returns the text of one config, from the local cache if possible.
func (s *Store) config(ctx context.Context, cluster string, listed store.Info) (string, error) {
	have := s.readCache(ctx, cluster)
	if d := have.Documents[layout.Config]; d.Version == listed.Version {
		return d.Text, nil
	}
	data, v, err := s.cfg.State.Get(ctx, listed.Key)
	if err != nil {
		return "", err
	}
	if have.Documents == nil {
		have.Documents = map[string]document{}
	}
	have.Documents[layout.Config], have.Remote = document{Version: v, Text: string(data)}, ""
	s.writeCache(ctx, cluster, have)
	return string(data), nil
}

// makePrivate creates a folder that only its owner can access.
func makePrivate(dir string) error { return os.MkdirAll(dir, 0o700) }
