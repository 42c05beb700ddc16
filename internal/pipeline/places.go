package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/past"
	"kops.local/kops/internal/model/managedfile"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/clusterstore"
	"kops.local/kops/internal/store/onstore"
)

// Places are the folders of a cluster's files, in the form in which the kinds of files use them.
type Places struct {
	*clusterstore.Folders
	keys, secrets managedfile.Area
	// clusterFolder is the cluster's folder; zero if it cannot be reached.
	clusterFolder managedfile.Area
	// files are the folders of managed files, by their kind: buckets, which Terraform can write to,
	// and other stores.
	files map[string][]managedfile.Area
	// outside are folders in stores that the spec names in addition to the cluster's own.
	outside []managedfile.Area
	// issuer is where the documents of the service account issuer are stored; may be nil.
	issuer store.Store
}

// private reports whether each of the issuer's documents must itself be made public, because their
// bucket is not. The result is remembered in m, which may be nil; the bucket is queried again if
// documents will be written.
func (p *Places) private(ctx context.Context, m past.Memo, written bool) (bool, error) {
	if p.issuer == nil || p.issuer.About().Public == nil {
		return false, nil
	}
	key := "public: everyone can read " + p.issuer.About().URL
	if public, known := past.Recall[bool](m, key); known && !written {
		return !public, nil
	}
	public, err := p.issuer.About().Public(ctx)
	if err != nil {
		return false, fmt.Errorf("%s: %w", discoveryField, err)
	}
	past.Remember(m, key, public)
	return !public, nil
}

// exist checks that the stores exist that the spec names in addition to the cluster's own.
func (p *Places) exist(ctx context.Context) error {
	for _, a := range p.outside {
		if _, err := a.List(ctx); err != nil {
			return err
		}
	}
	return nil
}

// places finds the folders of a cluster. It makes no request. Offline, stores other than the state
// store are left out, unless they are observed like the platform, as for a preview: otherwise their
// files would be reported as missing.
func (w *World) places(ctx context.Context, cl *clusterstore.Contents, observed bool) (*Places, error) {
	f, err := w.Store.Folders(ctx, cl.Spec, cl)
	if err != nil {
		return nil, err
	}
	p := &Places{Folders: f, keys: w.area(f.Keys), secrets: w.area(f.Secrets), files: map[string][]managedfile.Area{}}
	if f.Base.Store != nil {
		p.clusterFolder = w.area(f.Base)
		p.files[w.Buckets.Location(f.Base.URL).Kind()] = []managedfile.Area{p.clusterFolder}
	}
	for _, e := range foldersElsewhere(&cl.Spec.Spec, f.Base.URL) {
		if w.Offline && !observed && !store.IsFolder(e.url) {
			continue
		}
		s, err := w.Backends.Open(ctx, e.url)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.field, err)
		}
		if e.field == discoveryField {
			p.issuer = s
		}
		at := w.Buckets.Location(e.url)
		a := withListField(e.field, onstore.Area(at.Store, at.Prefix, s, nil))
		p.outside = append(p.outside, a)
		p.files[at.Kind()] = append(p.files[at.Kind()], a)
	}
	return p, nil
}

// OnlyHere rejects stores for files that control-plane machines read, if these cannot: local folders, where
// machines run elsewhere, and stores that need an identity of another platform. The state store itself may be
// a local folder with the objects, which no machine reads. Offline it only warns: rendering from a file of facts creates no machine.
func (w *World) OnlyHere(cl *api.Cluster) diag.List {
	p, err := w.Provider(string(cl.CloudProviderID()))
	if err != nil || !p.Remote {
		return nil
	}
	spec, scheme := cl.Spec.ConfigStore, "s3"
	if own := p.Store.Schemes; len(own) > 0 {
		scheme = own[0]
	}
	var l diag.List
	for _, f := range []struct{ path, url string }{
		{"spec.configBase", cmp.Or(spec.Base, w.ConfigBase(cl.Name))}, {"spec.keyStore", spec.Keypairs}, {"spec.secretStore", spec.Secrets},
	} {
		if f.url != "" && !w.isReadBy(p, f.url) {
			l = append(l, diag.Finding{Object: api.Name(cl), Path: f.path, Value: f.url, Rule: "machines-store", Warning: w.Offline,
				Message: "cannot be read by machines on " + p.Title,
				Remedy:  "keep the state in a bucket (option:Store " + scheme + "://…), or specify a bucket for the files that machines read (option:Sets " + f.path + "=" + scheme + "://…)"})
		}
	}
	return l
}

// isReadBy reports whether machines of a platform can read a store. Whatever speaks S3 is read with keys, if
// it is on a known server.
func (w *World) isReadBy(p platform.Provider, url string) bool {
	scheme, _, _ := strings.Cut(url, "://")
	fetches := func(p platform.Provider) bool { return p.Store.Fetch[scheme] != "" }
	switch {
	case store.IsFolder(url):
		return false
	case fetches(p), scheme == "s3" && w.endpoint() != "":
		return true
	}
	return !slices.ContainsFunc(w.Clouds, fetches)
}

// discoveryField names the store of the service account issuer's documents.
const discoveryField = "spec.serviceAccountIssuerDiscovery.discoveryStore"

// place is a folder and the field that names it.
type place struct{ field, url string }

// foldersElsewhere lists the folders outside the cluster's own that hold managed files: the
// documents of the service account issuer, and back-ups of etcd.
func foldersElsewhere(s *api.ClusterSpec, base string) []place {
	var out []place
	add := func(field, url string) {
		url = strings.TrimSuffix(url, "/")
		if url != "" && !slices.ContainsFunc(out, func(p place) bool { return p.url == url }) {
			out = append(out, place{field, url})
		}
	}
	if d := s.ServiceAccountIssuerDiscovery; d != nil {
		add(discoveryField, d.DiscoveryStore)
	}
	for i, e := range s.EtcdClusters {
		if e.Backups != nil && !Below(e.Backups.BackupStore, base) {
			add(fmt.Sprintf("spec.etcdClusters[%d].backups.backupStore", i), e.Backups.BackupStore)
		}
	}
	return out
}

// withListField returns an area whose error names the field of the spec if it cannot be listed.
func withListField(field string, a managedfile.Area) managedfile.Area {
	list := a.List
	a.List = func(ctx context.Context) ([]managedfile.Info, error) {
		all, err := list(ctx)
		if err != nil {
			err = fmt.Errorf("%s: %w", field, err)
		}
		return all, err
	}
	return a
}

func (w *World) area(f clusterstore.Folder) managedfile.Area {
	at := w.Buckets.Location(f.URL)
	return onstore.Area(at.Store, at.Prefix, f.Store, f.Listing)
}

// Below reports whether a URL is below another.
func Below(url, folder string) bool {
	return strings.HasPrefix(url+"/", strings.TrimSuffix(folder, "/")+"/")
}
