// Package hostnames holds the names that a cluster's machines have for each other's
// services, whether the DNS or their own files of hosts know them.
//
// It must not know where a name leads.
package hostnames

// Suffix follows every name that only the machines of a cluster use.
func Suffix(cluster string) string { return ".internal." + cluster }

// API is the API server, for the cluster's own machines.
func API(cluster string) string { return "api" + Suffix(cluster) }

// Controller is kops-controller.
func Controller(cluster string) string { return "kops-controller" + Suffix(cluster) }

// Etcd is an etcd cluster, by its name such as main.
func Etcd(etcd, cluster string) string { return etcd + ".etcd" + Suffix(cluster) }
