package complete

import (
	"strings"

	"kops.local/kops/internal/contract/etcdversion"
)

// etcdVersion is the newest etcd that a minor version of Kubernetes is run with here.
func (p *pass) etcdVersion() string {
	minor := uint64(7)
	switch {
	case p.olderThan(34):
		minor = 5
	case p.olderThan(37):
		minor = 6
	}
	r, _ := etcdversion.Newest(minor) // there is one of each of these
	return r.String()
}

func setEtcdVersion(p *pass) {
	for i := range p.spec.EtcdClusters {
		if e := &p.spec.EtcdClusters[i]; e.Image == "" {
			fill(&e.Version, p.etcdVersion())
		}
	}
}

func setEtcdBackups(p *pass) {
	base := strings.TrimSuffix(p.spec.ConfigStore.Base, "/")
	if base == "" {
		return
	}
	for i := range p.spec.EtcdClusters {
		e := &p.spec.EtcdClusters[i]
		fill(&ensure(&e.Backups).BackupStore, base+"/backups/etcd/"+e.Name)
	}
}

// hasEtcd reports whether the cluster has an etcd of that name.
func (p *pass) hasEtcd(name string) bool {
	for _, e := range p.spec.EtcdClusters {
		if e.Name == name {
			return true
		}
	}
	return false
}
