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

// Contents are the documents of one cluster, as read or as they should become.
// Values returned by Load and Save must not be changed; change a Clone.
type Contents struct {
	Spec   *api.Cluster
	Groups []*api.InstanceGroup // in the order of their names
	// Hosts are machines of the user that were enrolled, in the order of their names.
	Hosts []*api.Host
	// Additional are further Kubernetes objects that the cluster gets.
	Additional []api.Object
	// Warnings are about what in the documents was not understood, and dropped.
	Warnings diag.List

	docs    pack                 // the texts that were read, and their versions
	unread  map[string]diag.List // the warnings about each of them
	rewrite []string             // documents to write even if they say the same
	listing []store.Info         // of the cluster's folder in the state store; nil when unknown
}

// Clone returns contents that can be changed, and saved with Save(ctx, c, clone).
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

// SelectGroups returns the groups with these names, or all groups without names.
func (c *Contents) SelectGroups(names ...string) ([]*api.InstanceGroup, error) {
	if len(names) == 0 {
		return c.Groups, nil
	}
	var out []*api.InstanceGroup
	for _, n := range names {
		g := c.Group(n)
		if g == nil {
			return nil, c.noGroup(n)
		}
		out = append(out, g)
	}
	return out, nil
}

func (c *Contents) noGroup(name string) error {
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
// changed, so that unknown parts of its text are dropped.
func (c *Contents) Rewrite(o api.Object) { c.rewrite = append(c.rewrite, documentKey(o)) }

// Unread returns the parts of an object's text that were not understood, and the text; the
// list is empty when all of it was understood.
func (c *Contents) Unread(o api.Object) (diag.List, string) {
	key := documentKey(o)
	return c.unread[key], c.docs.Documents[key].Text
}

// documentKey is where an object is stored below the folder of its cluster.
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

// Same reports whether an object's document is the same in two contents, and was
// not written in between.
func (c *Contents) Same(o *Contents, object api.Object) bool {
	key := documentKey(object)
	return c.docs.Documents[key] == o.docs.Documents[key]
}

// Group returns the group of a name, or nil.
func (c *Contents) Group(name string) *api.InstanceGroup {
	for _, g := range c.Groups {
		if g.Name == name {
			return g
		}
	}
	return nil
}

// Host returns the host of a name, or nil.
func (c *Contents) Host(name string) *api.Host {
	for _, h := range c.Hosts {
		if h.Name == name {
			return h
		}
	}
	return nil
}

// Load reads a cluster: one listing of its folder, and beside it what the local
// cache does not hold: one request where the store has a current pack, else one for
// each document. A cluster that does not exist is an error of class fault.Gone.
func (s *Store) Load(ctx context.Context, cluster string) (*Contents, error) {
	docs, files, err := s.documents(ctx, cluster)
	if err != nil {
		return nil, err
	}
	return s.contents(ctx, cluster, docs, files)
}

// LoadWith is Load with another text in the place of the stored one of an object, which
// may be beyond reading. Save then writes the object.
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

// Text returns the stored text of an object, as it is. One that is not stored is an
// error of class fault.Gone.
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
	have := s.cached(ctx, cluster)
	var remote *pack
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		files, err = collect(gctx, s.folder(cluster), "")
		return err
	})
	if len(have.Documents) == 0 {
		g.Go(func() error {
			remote = s.packed(gctx, cluster)
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

// isDocument says whether a file of a cluster's folder is one of its documents.
func isDocument(key string) bool {
	folder, name := path.Split(key)
	return key == layout.Config || key == layout.Additional || name != "" && (folder == layout.Groups || folder == layout.Hosts)
}

func (s *Store) notFound(ctx context.Context, cluster string) error {
	remedy := "list the clusters that are there with: kops get clusters"
	if names, err := s.Names(ctx); err == nil { // of a store that cannot be listed nothing is said
		if near := diag.Nearest(cluster, names); near != "" {
			remedy = fmt.Sprintf("did you mean %s? %s", near, remedy)
		}
	}
	return fault.Wrap(fault.Gone, fmt.Errorf("cluster %q not found in the state store %s", cluster, s.URL()), remedy)
}

// decode reads the documents of a cluster.
func (s *Store) decode(ctx context.Context, cluster string, docs pack) (*Contents, error) {
	c := &Contents{docs: docs, unread: map[string]diag.List{}}
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
	c.unread[layout.Config], c.Warnings = unread, append(c.Warnings, unread...)
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

// decodeFolder reads the objects that each have a document in a folder, in the order of
// their names, and labels them with the name of their cluster.
func decodeFolder[T api.Object](c *Contents, cluster string, in store.Store, prefix string) ([]T, error) {
	var out []T
	for _, key := range slices.Sorted(maps.Keys(c.docs.Documents)) {
		if !strings.HasPrefix(key, prefix) {
			continue
		}
		var unread diag.List
		o, err := decodeNamed[T](c.docs.Documents[key].Text, path.Base(key), store.URL(in, key), &unread)
		if err != nil {
			return nil, err
		}
		c.unread[key], c.Warnings = unread, append(c.Warnings, unread...)
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

// decodeConfig reads the config of a cluster, and fills in where its files are.
func (s *Store) decodeConfig(cluster, text string, warnings *diag.List) (*api.Cluster, error) {
	folder := s.folder(cluster)
	c, err := decodeNamed[*api.Cluster](text, cluster, store.URL(folder, layout.Config), warnings)
	if err == nil && c.Spec.ConfigStore.Base == "" {
		c.Spec.ConfigStore.Base = folder.About().URL
	}
	return c, err
}

// decodeNamed reads a document that holds one object of the name that its key says.
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

// Clusters reads the config of every cluster, in the order of their names. One
// that cannot be read is left out, with a warning. It is one listing of the whole
// store, and a request for each config that the local cache does not hold.
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
	err = each(ctx, found, func(ctx context.Context, i int, info store.Info) error {
		r := &results[i]
		name := clusterOf(info.Key)
		text, err := s.config(ctx, name, info)
		if err == nil {
			r.cluster, err = s.decodeConfig(name, text, &r.warnings)
		}
		if err != nil {
			r.cluster, r.warnings = nil, diag.List{{Object: "Cluster/" + name, Rule: "unreadable", Warning: true,
				Message: "left out: " + err.Error()}}
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

// ClustersNamed reads the configs of the clusters of some names, in their order: a
// request for each. One that does not exist is an error of class fault.Gone, and
// one that cannot be read is an error too.
func (s *Store) ClustersNamed(ctx context.Context, names ...string) ([]*api.Cluster, diag.List, error) {
	out := make([]*api.Cluster, len(names))
	warnings := make([]diag.List, len(names))
	err := each(ctx, names, func(ctx context.Context, i int, name string) error {
		if err := checkName(name); err != nil {
			return err
		}
		text, _, err := s.folder(name).Get(ctx, layout.Config)
		switch {
		case fault.Is(err, fault.Gone):
			return fault.New(fault.Gone, "cluster not found %q", name)
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

// config is the text of one config, from the local cache if it is there.
func (s *Store) config(ctx context.Context, cluster string, listed store.Info) (string, error) {
	have := s.cached(ctx, cluster)
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
	s.keep(ctx, cluster, have)
	return string(data), nil
}

// makePrivate makes a folder that only its owner may see.
func makePrivate(dir string) error { return os.MkdirAll(dir, 0o700) }
