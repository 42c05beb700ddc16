// Package gcename says the names that several stages must give alike on Google Compute
// Engine: what makes an object, what finds it, and the programs that use it. They are
// kOps', so that clusters that it made are found.
//
// It must not know the objects.
package gcename

import (
	"fmt"
	"net/url"
	"strings"

	"kops.local/kops/internal/model/names"
)

// The bounds of names, in bytes.
const (
	maxName    = 63 // of resources, labels and network tags (RFC 1035)
	maxAccount = 30 // of the part of a service account's address before the @ (IAM)
	maxPrefix  = 32 // of a template's name before the dash and what makes it unique (kOps)
)

// The words that distinguish the machines of a cluster in network tags.
const (
	ControlPlane = "control-plane"
	Master       = "master"
	APIServer    = "apiserver"
	Node         = "node"
	Bastion      = "bastion"
)

// Suffixed is the name of a cluster's object, such as api or a subnet of the spec. The
// cluster's part alone is cut, so that all names of a cluster end alike.
func Suffixed(object, cluster string) string { return suffixed(object, cluster, maxName) }

func suffixed(object, cluster string, limit int) string {
	room := limit - len(object) - 1
	if room <= names.Tail {
		return names.Short(object+"-"+names.Dashed(cluster), limit)
	}
	return object + "-" + names.Short(names.Dashed(cluster), room)
}

// Part returns the part before the cluster in a name of Suffixed; ok is false if it is not such a
// name. Clusters whose names begin or end alike may each give it.
func Part(name, cluster string) (object string, ok bool) {
	for i := range name {
		if name[i] == '-' && maxName-i-1 > names.Tail && Suffixed(name[:i], cluster) == name {
			return name[:i], true
		}
	}
	return "", false
}

// Network is the name of the network that kops makes for a cluster.
func Network(cluster string) string { return names.Short(names.Dashed(cluster), maxName) }

// Tag is the network tag of the machines of a role: control-plane, master, apiserver, node or bastion.
func Tag(role, cluster string) string {
	suffix := "-k8s-io-role-" + role
	return names.Short(names.Dashed(cluster), maxName-len(suffix)) + suffix
}

// Tags are the network tags that a cluster's machines have.
func Tags(cluster string) []string {
	out := []string{ControlPlane, Master, APIServer, Node, Bastion}
	for i, role := range out {
		out[i] = Tag(role, cluster)
	}
	return out
}

// Group is the name of the managed instance group of an instance group in a zone.
func Group(group, zone, cluster string) string {
	return names.Short(zone[strings.LastIndex(zone, "-")+1:]+"-"+TemplateNode(group, cluster), maxName)
}

// TemplateNode is the name of an instance group's template among the cluster's resources, of any length.
func TemplateNode(group, cluster string) string { return group + "-" + names.Dashed(cluster) }

// TemplatePrefix begins the names of an instance group's templates.
func TemplatePrefix(group, cluster string) string {
	return names.Short(TemplateNode(group, cluster), maxPrefix) + "-"
}

// Account is the id of the service account of a role: control-plane, node or bastion.
func Account(role, cluster string) string { return suffixed(role, cluster, maxAccount) }

// AccountEmail is the address of a service account of a project. For a project of a domain, D:P,
// it is in P.D.
func AccountEmail(account, project string) string {
	if domain, name, ok := strings.Cut(project, ":"); ok {
		project = name + "." + domain
	}
	return account + "@" + project + ".iam.gserviceaccount.com"
}

// EtcdDisk is the name of the disk of a member of an etcd cluster. Names begin with a letter.
func EtcdDisk(member, etcd, cluster string) string {
	object := member + "-etcd-" + etcd
	if c := object[0]; c == '-' || c >= '0' && c <= '9' {
		object = "d" + object
	}
	return Suffixed(object, cluster)
}

// EncodeLabel spells a text as the value of a label: every byte but 0-9 and a-z is a dash and
// two hexadecimal digits.
func EncodeLabel(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "-%02x", c)
		}
	}
	return b.String()
}

// DecodeLabel reverses EncodeLabel.
func DecodeLabel(value string) (string, error) {
	text, err := url.QueryUnescape(strings.ReplaceAll(value, "-", "%"))
	if err != nil {
		return "", fmt.Errorf("read the label value %q: %w", value, err)
	}
	return text, nil
}
