// Package hostnames holds the names that a cluster's machines have for each other's
// services, whether the DNS or their own files of hosts know them.
//
// It must not know where a name leads.
package hostnames

import "strings"

// Suffix follows every name that only the machines of a cluster use.
func Suffix(cluster string) string { return ".internal." + cluster }

// API is the API server, for the cluster's own machines.
func API(cluster string) string { return "api" + Suffix(cluster) }

// Controller is kops-controller.
func Controller(cluster string) string { return "kops-controller" + Suffix(cluster) }

// Etcd is an etcd cluster, by its name such as main.
func Etcd(etcd, cluster string) string { return etcd + ".etcd" + Suffix(cluster) }

// EtcdCluster is what the managers call an etcd cluster.
func EtcdCluster(etcd string) string {
	if etcd == "main" {
		return "etcd"
	}
	return "etcd-" + etcd
}

// EtcdPeer is the machine of a member, among the managers of its etcd cluster; with
// Suffix after it, that is a name of the machine.
func EtcdPeer(etcd, member string) string { return EtcdCluster(etcd) + "-" + member }

const (
	markPrefix = "_kops-"
	// markedAny stands for the star in the name of a mark, where a star has no meaning.
	markedAny = "_any"
)

// Mark is the name of the TXT record that says whose the records of a name and a type are.
func Mark(name, kind string) string {
	if rest, any := strings.CutPrefix(name, "*"); any {
		name = markedAny + rest
	}
	return markPrefix + strings.ToLower(kind) + "." + name
}

// Marked returns the name and the type of which a name is the mark.
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

// MarkText is what the marks of a cluster's records say.
func MarkText(cluster string) string { return "heritage=kops,kops/cluster=" + cluster }
