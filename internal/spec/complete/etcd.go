package complete

import "strings"

// etcdVersion is the newest etcd that a minor version of Kubernetes is run with here.
func (p *pass) etcdVersion() string {
	switch {
	case p.olderThan(34):
		return "3.5.31"
	case p.olderThan(37):
		return "3.6.12"
	default:
		return "3.7.0"
	}
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
