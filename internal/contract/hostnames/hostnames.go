// Package hostnames has the names under which a cluster's machines reach each other's services,
// whether they are in DNS or in the machines' hosts files.
//
// It must not know what a name resolves to.
package hostnames

import "strings"

// Suffix returns the suffix of every name that only the machines of a cluster use.
func Suffix(cluster string) string { return ".internal." + cluster }

// API returns the name of the API server for the cluster's own machines.
func API(cluster string) string { return "api" + Suffix(cluster) }

// Controller returns the name of kops-controller.
func Controller(cluster string) string { return "kops-controller" + Suffix(cluster) }

// Etcd returns the name of an etcd cluster, given its short name such as main.
func Etcd(etcd, cluster string) string { return etcd + ".etcd" + Suffix(cluster) }

// EtcdCluster returns the managers' name for an etcd cluster.
func EtcdCluster(etcd string) string {
	if etcd == "main" {
		return "etcd"
	}
	return "etcd-" + etcd
}

// EtcdPeer returns the managers' name for the machine of a member; followed by Suffix, it is a host
// name of the machine.
func EtcdPeer(etcd, member string) string { return EtcdCluster(etcd) + "-" + member }

const (
	markPrefix = "_kops-"
	// markedAny replaces the star in the name of a mark, where a star has no meaning.
	markedAny = "_any"
)

// Mark returns the name of the TXT record that marks the owner of the records with a name and a
// type.
func Mark(name, kind string) string {
	if rest, any := strings.CutPrefix(name, "*"); any {
		name = markedAny + rest
	}
	return markPrefix + strings.ToLower(kind) + "." + name
}

// Marked returns the name and the type for which a name is the mark.
func Marked(mark string) (name, kind string, ok bool) {
	rest, ok := strings.CutPrefix(mark, markPrefix)
	kind, name, named := strings.Cut(rest, ".")
	if !ok || !named {
		return "", "", false
	}
	if rest, any := strings.CutPrefix(name, markedAny); any {
		name = "*" + rest
	}
	return name, strings.ToUpper(kind), true
}

// MarkText returns the content of the marks of a cluster's records.
func MarkText(cluster string) string { return "heritage=kops,kops/cluster=" + cluster }
