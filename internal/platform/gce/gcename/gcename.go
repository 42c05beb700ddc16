// Package gcename defines the names that several stages must agree on for Google Compute Engine:
// creating an object, finding it, and the programs that use it. They are the same as kOps', so that
// clusters created by kOps are found.
//
// It must not know the objects.
package gcename

import (
	"fmt"
	"net/url"
	"strings"

	"kops.local/kops/internal/model/names"
)

// The maximum lengths of names, in bytes.
const (
	maxName    = 63 // resources, labels and network tags (RFC 1035)
	maxAccount = 30 // the part of a service account's address before the @ (IAM)
	maxPrefix  = 32 // a template's name before the dash and the unique suffix (kOps)
)

// The words that distinguish the machines of a cluster in network tags.
const (
	ControlPlane = "control-plane"
	Master       = "master"
	APIServer    = "apiserver"
	Node         = "node"
	Bastion      = "bastion"
)

// Suffixed returns the name of a cluster's object, such as api or a subnet of the spec. Only the
// cluster's part is truncated, so that the names of a cluster's objects end in the same way.
func Suffixed(object, cluster string) string { return suffixed(object, cluster, maxName) }

func suffixed(object, cluster string, limit int) string {
	room := limit - len(object) - 1
	if room <= names.Tail {
		return names.Short(object+"-"+names.Dashed(cluster), limit)
	}
	return object + "-" + names.Short(names.Dashed(cluster), room)
}

// Part returns the object in a name returned by Suffixed; ok is false if it is not such a name. A
// name may match several clusters if their names begin or end alike.
func Part(name, cluster string) (object string, ok bool) {
	for i := range name {
		if name[i] == '-' && maxName-i-1 > names.Tail && Suffixed(name[:i], cluster) == name {
			return name[:i], true
		}
	}
	return "", false
}

// Network returns the name of the network that kops creates for a cluster.
func Network(cluster string) string { return names.Short(names.Dashed(cluster), maxName) }

// Tag returns the network tag of a role's machines; the role is control-plane, master, apiserver,
// node or bastion.
func Tag(role, cluster string) string {
	suffix := "-k8s-io-role-" + role
	return names.Short(names.Dashed(cluster), maxName-len(suffix)) + suffix
}

// Tags returns the network tags of a cluster's machines.
func Tags(cluster string) []string {
	out := []string{ControlPlane, Master, APIServer, Node, Bastion}
	for i, role := range out {
		out[i] = Tag(role, cluster)
	}
	return out
}

// Group returns the name of an instance group's managed instance group in a zone.
func Group(group, zone, cluster string) string {
	return names.Short(zone[strings.LastIndex(zone, "-")+1:]+"-"+TemplateNode(group, cluster), maxName)
}

// TemplateNode returns the name of an instance group's template among the cluster's resources,
// which may have any length.
func TemplateNode(group, cluster string) string { return group + "-" + names.Dashed(cluster) }

// TemplatePrefix returns the prefix of the names of an instance group's templates.
func TemplatePrefix(group, cluster string) string {
	return names.Short(TemplateNode(group, cluster), maxPrefix) + "-"
}

// Account returns the ID of a role's service account; the role is control-plane, node or bastion.
func Account(role, cluster string) string { return suffixed(role, cluster, maxAccount) }

// AccountEmail returns the address of a service account of a project. For a project D:P of a
// domain, it is in P.D.
func AccountEmail(account, project string) string {
	if domain, name, ok := strings.Cut(project, ":"); ok {
		project = name + "." + domain
	}
	return account + "@" + project + ".iam.gserviceaccount.com"
}

// EtcdDisk returns the name of the disk of an etcd cluster's member. It begins with a letter.
func EtcdDisk(member, etcd, cluster string) string {
	object := member + "-etcd-" + etcd
	if c := object[0]; c == '-' || c >= '0' && c <= '9' {
		object = "d" + object
	}
	return Suffixed(object, cluster)
}

// EncodeLabel encodes a text as a label value: every byte except 0-9 and a-z is written as a dash
// and two hexadecimal digits.
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
