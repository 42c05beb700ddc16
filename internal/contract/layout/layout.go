// Package layout is where the files of a cluster stand in a store, below the folder
// of the cluster. The layout is kOps'.
//
// It must not know what the files hold, nor how a store is reached.
package layout

import (
	"slices"
	"strings"

	"kops.local/kops/internal/contract/programs"
)

// Files that users write. Names of instance groups follow Groups, and names of
// enrolled machines follow Hosts.
const (
	Config     = "config"
	Groups     = "instancegroup/"
	Hosts      = "hosts/"
	Additional = "clusteraddons/default"
)

// Folders of key material, for clusters that name none of their own, and of the
// public keys with which administrators log in.
const (
	PKI     = "pki"
	Secrets = "secrets"
	SSHKeys = "ssh/public/admin/"
)

// Files that an update writes: the completed spec; the version of the program that
// applied the cluster last; the static manifests of the API server's health check and
// of what applies the add-ons; and the channel that names the manifests in Addons.
const (
	Completed   = "cluster-completed.spec"
	Version     = "kops-version.txt"
	Healthcheck = Manifests + "static/kube-apiserver-healthcheck.yaml"
	Channels    = Manifests + "channels/kops-channels.yaml"
	Addons      = "addons/"
	Channel     = Addons + "bootstrap-channel.yaml"
)

// Manifests is the folder of the static manifests, of those above and of etcd's members.
const Manifests = "manifests/"

// Documents by which others check the tokens of service accounts (OpenID Connect
// Discovery 1.0), below the root of the store that a cluster publishes them in.
const (
	OpenIDConfiguration = ".well-known/openid-configuration"
	WebKeys             = "openid/v1/jwks"
)

const (
	groupConfigs = "igconfig/"
	backups      = "backups/"
	machines     = PKI + "/machines/" // of MachineKey
)

// EtcdManifest is the static manifest of the member of an etcd cluster on the machines of a group.
func EtcdManifest(etcd, group string) string {
	return Manifests + "etcd/" + etcd + "-" + group + ".yaml"
}

// EtcdBackups is the folder of the back-ups of an etcd cluster that names no other.
func EtcdBackups(etcd string) string { return backups + "etcd/" + etcd }

// GroupFolder is the folder of the configuration of a group's machines; role is the group's
// role as in its spec.
func GroupFolder(role, group string) string {
	folder := strings.ToLower(role)
	if role == "ControlPlane" {
		folder = "control-plane"
	}
	return groupConfigs + folder + "/" + group + "/"
}

// NodeConfig is the node configuration of a group.
func NodeConfig(role, group string) string { return GroupFolder(role, group) + "nodeupconfig.yaml" }

// UserData is the script of a group whose machines others than kops make.
func UserData(role, group string) string { return GroupFolder(role, group) + "nodeupscript.sh" }

// Keyset is a keyset, below the folder of key pairs.
func Keyset(name string) string { return keysets + name + keysetFile }

const (
	keysets    = "private/"
	keysetFile = "/keyset.yaml"
)

// KeysetName is the name of the keyset that stands at a key below the folder of key pairs.
func KeysetName(key string) (name string, ok bool) {
	name, ok = strings.CutPrefix(key, keysets)
	name, file := strings.CutSuffix(name, keysetFile)
	return name, ok && file
}

// MachineKey is where a machine that proves itself by a key of its own is registered.
func MachineKey(node string) string { return machines + node + ".json" }

// IsOwned reports whether an update owns the file at a key: when it is not desired, it
// may go. What a user wrote, keysets, secrets and back-ups are never owned; nor is the
// wish for an etcd cluster, whose absence would stop its manager.
func IsOwned(key string) bool {
	return slices.Contains([]string{Completed, Version, OpenIDConfiguration, WebKeys}, key) || below(key, Addons, groupConfigs, Manifests, machines)
}

// IsKnown reports whether the file at a key is one that kops or kOps writes, and a
// deletion of the cluster removes. The documents of an issuer are not among them:
// they may be of another cluster.
func IsKnown(key string) bool {
	return slices.Contains([]string{Config, "cluster.spec", Completed, Version}, key) ||
		below(key, Addons, "clusteraddons/", PKI+"/", Secrets+"/", Groups, Hosts, groupConfigs, Manifests, backups, programs.Folder)
}

// IsKnownPKI reports the same of a key below a folder of key pairs outside the cluster's.
func IsKnownPKI(key string) bool { return below(key, keysets, "issued/", "public/", "ssh/") }

func below(key string, folders ...string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return strings.HasPrefix(key, f) })
}
