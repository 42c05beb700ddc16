// Package paths holds the paths on control plane machines on which the programs there and
// the pods that an update writes agree, and the paths of what every machine reports about itself.
//
// It must not know who reads or writes what is there.
package paths

// Folders and files.
const (
	// Controller holds key material for kops-controller.
	Controller = "/etc/kubernetes/kops-controller"
	// Healthcheck holds the certificate with which kube-apiserver-healthcheck asks.
	Healthcheck = "/etc/kubernetes/kube-apiserver-healthcheck/secrets"
	// Channels holds ChannelsKubeconfig, with which the program channels calls the API.
	Channels           = "/var/lib/kops"
	ChannelsKubeconfig = Channels + "/kubeconfig"
	// SchedulerConfig is the scheduler's configuration, which names SchedulerKubeconfig.
	Scheduler           = "/var/lib/kube-scheduler"
	SchedulerConfig     = Scheduler + "/config.yaml"
	SchedulerKubeconfig = Scheduler + "/kubeconfig"
)

// Trust holds, as ca-certificates.crt, the authorities that the machine trusts, for
// pods that call services outside of the cluster; they have it at TrustPod.
const (
	Trust    = "/etc/kubernetes/trust"
	TrustPod = "/etc/ssl/certs"
)

// Running is the file in which a machine that has become all that it was to be notes what
// that is: labels.Running in JSON.
const Running = Channels + "/running.json"

// EtcdManager is the folder of key material for the manager of an etcd cluster, whose
// pod has it at EtcdManagerPod.
func EtcdManager(etcd string) string { return EtcdManagerPod + "-" + etcd }

// EtcdManagerPod is where that pod has it.
const EtcdManagerPod = "/etc/kubernetes/pki/etcd-manager"
