// Package layout defines where the files of a cluster are in a store, below the cluster's folder.
// The layout is kOps'.
//
// It must not know the contents of the files, nor how a store is reached.
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

// Folders of key material, for clusters that do not specify their own, and of the public keys with
// which administrators log in.
const (
	PKI     = "pki"
	Secrets = "secrets"
	SSHKeys = "ssh/public/admin/"
)

// Files that an update writes: the completed spec; the version of the program that last applied the
// cluster; the static manifests of the API server's health check and of the program that applies
// the add-ons; and the channel that lists the manifests in Addons.
const (
	Completed   = "cluster-completed.spec"
	Version     = "kops-version.txt"
	Healthcheck = Manifests + "static/kube-apiserver-healthcheck.yaml"
	Channels    = Manifests + "channels/kops-channels.yaml"
	Addons      = "addons/"
	Channel     = Addons + "bootstrap-channel.yaml"
)

// Manifests is the folder of the static manifests: those above and those of etcd's members.
// PlatformSecrets has the secrets with which the programs of control planes use the platform, for
// platforms that give machines no account.
const (
	Manifests       = "manifests/"
	PlatformSecrets = Manifests + "platform-secrets.json"
)

// Documents with which others verify service account tokens (OpenID Connect Discovery 1.0), below
// the root of the store in which a cluster publishes them.
const (
	OpenIDConfiguration = ".well-known/openid-configuration"
	WebKeys             = "openid/v1/jwks"
)

const (
	groupConfigs = "igconfig/"
	backups      = "backups/"
	machines     = PKI + "/machines/" // folder of MachineKey
)

// EtcdManifest returns the static manifest for the member of an etcd cluster on the machines of a
// group.
func EtcdManifest(etcd, group string) string {
	return Manifests + "etcd/" + etcd + "-" + group + ".yaml"
}

// EtcdBackups returns the default folder for the back-ups of an etcd cluster.
func EtcdBackups(etcd string) string { return backups + "etcd/" + etcd }

// GroupFolder returns the folder of the configuration of a group's machines; role is the group's
// role as in its spec.
func GroupFolder(role, group string) string {
	folder := strings.ToLower(role)
	if role == "ControlPlane" {
		folder = "control-plane"
	}
	return groupConfigs + folder + "/" + group + "/"
}

// NodeConfig returns the key of the node configuration of a group.
func NodeConfig(role, group string) string { return GroupFolder(role, group) + "nodeupconfig.yaml" }

// UserData returns the key of the script of a group whose machines are not created by kops.
func UserData(role, group string) string { return GroupFolder(role, group) + "nodeupscript.sh" }

// Keyset returns the key of a keyset, below the folder of key pairs.
func Keyset(name string) string { return keysets + name + keysetFile }

const (
	keysets    = "private/"
	keysetFile = "/keyset.yaml"
)

// KeysetName returns the name of the keyset at a key below the folder of key pairs.
func KeysetName(key string) (name string, ok bool) {
	name, ok = strings.CutPrefix(key, keysets)
	name, file := strings.CutSuffix(name, keysetFile)
	return name, ok && file
}

// MachineKey returns where a machine that authenticates with a key of its own is registered.
func MachineKey(node string) string { return machines + node + ".json" }

// IsOwned reports whether an update owns the file at a key: if it is not desired, it may be
// deleted. Files that a user wrote, keysets, secrets and back-ups are never owned; nor is the spec
// of an etcd cluster, whose absence would stop its manager.
func IsOwned(key string) bool {
	return slices.Contains([]string{Completed, Version, OpenIDConfiguration, WebKeys}, key) || isBelow(key, Addons, groupConfigs, Manifests, machines)
}

// IsKnown reports whether the file at a key is one that kops or kOps writes, and that is deleted
// with the cluster. The documents of an issuer are not included: they may belong to another
// cluster.
func IsKnown(key string) bool {
	return slices.Contains([]string{Config, "cluster.spec", Completed, Version}, key) ||
		isBelow(key, Addons, "clusteraddons/", PKI+"/", Secrets+"/", Groups, Hosts, groupConfigs, Manifests, backups, programs.Folder)
}

// IsKnownPKI reports the same for a key below a folder of key pairs outside of the cluster's
// folder.
func IsKnownPKI(key string) bool { return isBelow(key, keysets, "issued/", "public/", "ssh/") }

func isBelow(key string, folders ...string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return strings.HasPrefix(key, f) })
}
