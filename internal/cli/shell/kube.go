package shell

import (
	"errors"
	"time"

	clientapi "k8s.io/client-go/tools/clientcmd/api"

	"kops.local/kops"
	"kops.local/kops/internal/ops/kubeconfig"
)

// WriteKubeconfig writes a cluster's access into a kubeconfig file, which may be "" if there is
// none.
func (a *App) WriteKubeconfig(access *kops.Access, cluster, file string, o kops.KubeconfigOptions) error {
	if file == "" {
		return errors.New("cannot find your kubeconfig file; set HOME or KUBECONFIG")
	}
	e := kubeconfig.Entry{Cluster: cluster, Server: access.Server, TLSServerName: access.TLSServerName,
		CA: access.CA, User: o.User, Certificate: access.Certificate, Key: access.Key}
	if o.AuthPlugin {
		store, err := a.StateStore()
		if err != nil {
			return err
		}
		e.Exec = &clientapi.ExecConfig{APIVersion: "client.authentication.k8s.io/v1beta1", Command: "kops",
			Args:            []string{"helpers", "kubectl-auth", "--cluster=" + cluster, "--state=" + store},
			InteractiveMode: clientapi.NeverExecInteractiveMode}
	}
	if err := kubeconfig.Write(file, e); err != nil {
		return err
	}
	if access.Server == "" {
		a.Notef("warning: the API of %s has no address yet; export the kubeconfig again when the load balancer exists\n", cluster)
	}
	a.Notef("kops has set your kubectl context to %s\n", cluster)
	if !o.HasCredentials() && !kubeconfig.HasUser(file, cluster) {
		a.Notef("No credentials were written; for an admin certificate: kops export kubeconfig --name %s --admin\n", cluster)
	}
	return nil
}

// RenewKubeconfig updates the user's kubeconfig file to the keys of a cluster that it contains: it
// then trusts the authorities of access and, if issue is not nil, has a certificate as described at
// kubeconfig.Renew. Errors are only warnings: the file is the user's.
func (a *App) RenewKubeconfig(access *kops.Access, cluster string, issue func(ends time.Time) (certificate, key []byte, err error)) {
	file := a.Kubeconfig()
	if file == "" {
		return
	}
	switch changed, err := kubeconfig.Renew(file, cluster, access.CA, issue); {
	case err != nil:
		a.Notef("warning: %v\n", err)
	case changed:
		a.Notef("  %s has the current certificate authorities and credentials; for other kubeconfig files: kops export kubeconfig %s\n", file, cluster)
	}
}

// ForgetKubeconfig removes a deleted cluster from the kubeconfig files.
func (a *App) ForgetKubeconfig(cluster string) {
	forgot := false
	for _, file := range a.kubeconfigs() {
		found, err := kubeconfig.Remove(file, cluster)
		if err != nil {
			a.Notef("warning: %v\n", err)
		}
		forgot = forgot || found
	}
	if forgot {
		a.Notef("Deleted kubectl config for %s\n", cluster)
	}
}
