// Package paths has the paths on control-plane machines that are shared between the programs there
// and the pods that an update writes, and the paths of the files in which every machine reports
// about itself.
//
// It must not know who reads or writes these files.
package paths

import "path"

// Folders and files.
const (
	// Controller has the key material for kops-controller.
	Controller = "/etc/kubernetes/kops-controller"
	// Healthcheck has the certificate with which kube-apiserver-healthcheck queries the API server.
	Healthcheck = "/etc/kubernetes/kube-apiserver-healthcheck/secrets"
	// Channels has ChannelsKubeconfig, with which the program channels calls the API.
	Channels           = "/var/lib/kops"
	ChannelsKubeconfig = Channels + "/kubeconfig"
	// SchedulerConfig is the scheduler's configuration, which names SchedulerKubeconfig.
	Scheduler           = "/var/lib/kube-scheduler"
	SchedulerConfig     = Scheduler + "/config.yaml"
	SchedulerKubeconfig = Scheduler + "/kubeconfig"
)

// Keys has the machine's key material. On some systems, files below it are in another folder.
// FileAssets has the files of a spec that have no path, by their names.
const (
	Keys       = "/srv/kubernetes"
	FileAssets = Keys + "/assets"
)

// FileAsset returns the path of a file of a spec, given its path, which may be empty, and its name.
func FileAsset(at, name string) string {
	if at == "" {
		at = FileAssets + "/" + name
	}
	return path.Clean(at)
}

// PlatformSecrets has a file for each secret with which the programs of a control plane use the
// platform, under its name. Only root can read them.
const PlatformSecrets = "/etc/kubernetes/platform"

// Trust has, as ca-certificates.crt, the authorities that the machine trusts, for pods that call
// services outside of the cluster; it is mounted at TrustPod.
const (
	Trust    = "/etc/kubernetes/trust"
	TrustPod = "/etc/ssl/certs"
)

// Running is the file in which a machine that has reached its desired state records what that is:
// labels.Running in JSON.
const Running = Channels + "/running.json"

// EtcdManager returns the folder of key material for the manager of an etcd cluster; in its pod, it
// is mounted at EtcdManagerPod.
func EtcdManager(etcd string) string { return EtcdManagerPod + "-" + etcd }

// EtcdManagerPod is the mount point in that pod.
const EtcdManagerPod = "/etc/kubernetes/pki/etcd-manager"
