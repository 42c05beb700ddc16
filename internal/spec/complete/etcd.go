package complete

import (
	"strings"

	"github.com/blang/semver/v4"

	"kops.local/kops/internal/contract/etcdversion"
	"kops.local/kops/internal/spec/fill"
	"kops.local/kops/internal/spec/versions"
)

// EtcdVersion returns the newest etcd that is used with a version of Kubernetes.
func EtcdVersion(kubernetes semver.Version) string {
	minor := uint64(7)
	switch {
	case !versions.AtLeast(kubernetes, 1, 34):
		minor = 5
	case !versions.AtLeast(kubernetes, 1, 37):
		minor = 6
	}
	r, _ := etcdversion.Newest(minor) // all of these have one
	return r.String()
}

func setEtcdVersion(p *Pass) {
	for i := range p.Spec.EtcdClusters {
		if e := &p.Spec.EtcdClusters[i]; e.Image == "" {
			fill.Value(&e.Version, EtcdVersion(p.Version))
		}
	}
}

func setEtcdBackups(p *Pass) {
	base := strings.TrimSuffix(p.Spec.ConfigStore.Base, "/")
	if base == "" {
		return
	}
	for i := range p.Spec.EtcdClusters {
		e := &p.Spec.EtcdClusters[i]
		fill.Value(&fill.Ensure(&e.Backups).BackupStore, base+"/backups/etcd/"+e.Name)
	}
}

// hasEtcd reports whether the cluster has an etcd with that name.
func (p *Pass) hasEtcd(name string) bool {
	for _, e := range p.Spec.EtcdClusters {
		if e.Name == name {
			return true
		}
	}
	return false
}
