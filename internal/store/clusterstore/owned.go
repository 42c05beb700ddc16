package clusterstore

import (
	"context"
	"fmt"
	"path"
	"strings"

	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/store"
)

// The fields that name folders, as users write them.
const (
	configBase     = "spec.configBase"
	keyStore       = "spec.keyStore"
	secretStore    = "spec.secretStore"
	discoveryStore = "spec.serviceAccountIssuerDiscovery.discoveryStore"
)

// claim is a folder that a cluster's spec names although it belongs to another cluster.
type claim struct {
	field, url string // as in the spec
	why        string // such as "is the folder of cluster a.example.com"
	instead    string // the folder unless the spec names one
}

// CheckOwned returns an error if a folder that the spec names belongs to another cluster: its files
// would be overwritten, and its keys used. If all folders are in the cluster's own, as they are by
// default, it makes no request. Unless everywhere is set, it makes none to other stores, and checks
// only folders that share the state store.
func (f *Folders) CheckOwned(ctx context.Context, everywhere bool) error {
	claims, err := f.claims(ctx, everywhere)
	if err != nil {
		return err
	}
	var l diag.List
	for _, c := range claims {
		l = append(l, diag.Finding{Object: api.Name(f.cluster), Path: c.field, Value: c.url, Rule: "owned-folder", Message: c.why,
			Remedy: "write a folder that no other cluster uses, such as " + c.instead})
	}
	return l.Err()
}

// claims lists the folders that belong to another cluster. Backups and the documents of an issuer
// may be in any store: only whether they are in the state store's folder of another cluster is
// found out.
func (f *Folders) claims(ctx context.Context, everywhere bool) ([]claim, error) {
	type named struct {
		claim
		in Folder
	}
	var all []named
	add := func(field, url string, in Folder, instead string) {
		all = append(all, named{claim{field: field, url: url, instead: instead}, in})
	}
	spec, own := f.cluster.Spec, f.state.URL+"/"
	if f.Base.isOutside(f.state) {
		add(configBase, spec.ConfigStore.Base, f.Base, f.state.URL)
	}
	if f.Keys.isOutside(f.Base, f.state) {
		add(keyStore, spec.ConfigStore.Keypairs, f.Keys, own+layout.PKI)
	}
	if f.Secrets.isOutside(f.Base, f.state) {
		add(secretStore, spec.ConfigStore.Secrets, f.Secrets, own+layout.Secrets)
	}
	beside := func(field, url, instead string) {
		url = urlOr(url, "")
		rest, ok := strings.CutPrefix(url, f.s.URL()+"/")
		first, _, _ := strings.Cut(rest, "/")
		if ok && strings.Contains(first, ".") && !strings.HasPrefix(url, f.Base.URL+"/") { // as nearly all names of clusters
			folder, _ := (&tree{url: url, store: store.Sub(f.s.cfg.State, rest)}).folder(url)
			add(field, url, folder, instead)
		}
	}
	if d := spec.ServiceAccountIssuerDiscovery; d != nil {
		beside(discoveryStore, d.DiscoveryStore, own+"discovery")
	}
	for i, e := range spec.EtcdClusters {
		if e.Backups != nil {
			beside(fmt.Sprintf("spec.etcdClusters[%d].backups.backupStore", i), e.Backups.BackupStore, own+layout.EtcdBackups(e.Name))
		}
	}
	var out []claim
	for _, n := range all {
		if n.in.Store == nil || !everywhere && !f.sharesState(n.in) { // it cannot be reached, or must not be
			continue
		}
		why, err := f.claimOn(ctx, n.in)
		if err != nil {
			return nil, fmt.Errorf("find out whose folder %s is: %w", n.field, err)
		}
		if n.why = why; why != "" {
			out = append(out, n.claim)
		}
	}
	return out, nil
}

// sharesState reports whether a folder is in the state store, or the state store in the folder.
func (f *Folders) sharesState(in Folder) bool {
	url, state := in.Store.About().URL+"/", f.s.URL()+"/"
	return strings.HasPrefix(url, state) || strings.HasPrefix(state, url)
}

// claimOn returns why a folder belongs to another cluster: its folder, or one below or above it, has
// the config or the completed spec of a cluster. It returns "" if no such file can be read.
func (f *Folders) claimOn(ctx context.Context, in Folder) (string, error) {
	url := in.Store.About().URL // in one form, however the spec writes it
	rest, _ := strings.CutPrefix(url+"/", f.s.URL()+"/")
	switch {
	case strings.HasPrefix(rest, f.cluster.Name+"/"):
		return "", nil
	case strings.HasPrefix(rest, ownFolder):
		return "is in the folder of kops' own files", nil
	}
	listing, err := in.Listing(ctx)
	if err != nil && !isUnreadable(err) {
		return "", err
	}
	for _, info := range listing {
		folder, file := path.Split(info.Key)
		if file != layout.Config && file != layout.Completed {
			continue
		}
		other, err := f.otherCluster(ctx, in.Store, info.Key)
		switch {
		case err != nil:
			return "", err
		case other != "" && folder == "":
			return "is the folder of cluster " + other, nil
		case other != "":
			return "contains the folder of cluster " + other, nil
		}
	}
	for up := parent(url); up != "" && up != f.s.URL(); up = parent(up) {
		t, err := f.s.open(ctx, up)
		if err != nil || t == nil { // it is no store
			break
		}
		for _, key := range []string{layout.Config, layout.Completed} {
			if other, err := f.otherCluster(ctx, t.store, key); err != nil || other != "" {
				return "is in the folder of cluster " + other, err
			}
		}
	}
	return "", nil
}

// otherCluster returns the cluster that a file describes; "" if it is this one, or if no cluster can
// be read there.
func (f *Folders) otherCluster(ctx context.Context, s store.Store, key string) (string, error) {
	data, _, err := s.Get(ctx, key)
	if isUnreadable(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	rest, _ := strings.CutPrefix(store.URL(s, key), f.s.URL()+"/")
	name := clusterName(rest)
	if checkName(name) != nil { // it is no cluster of the state store
		var o struct {
			Kind     string
			Metadata struct{ Name string }
		}
		if yaml.Unmarshal(data, &o) != nil || o.Kind != api.KindCluster {
			return "", nil
		}
		name = o.Metadata.Name
	}
	if name == f.cluster.Name {
		return "", nil
	}
	return name, nil
}

// isUnreadable reports whether an error means that nothing is there, or nothing that the user may read.
func isUnreadable(err error) bool {
	return fault.Is(err, fault.Gone) || fault.Is(err, fault.Denied) || store.IsMissing(err)
}

// parent returns the URL of the folder that a folder is in; "" for a bucket.
func parent(url string) string {
	scheme, rest, _ := strings.Cut(url, "://")
	i := strings.LastIndex(rest, "/")
	if i <= 0 {
		return ""
	}
	return scheme + "://" + rest[:i]
}
