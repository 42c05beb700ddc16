package health

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientapi "k8s.io/client-go/tools/clientcmd/api"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/fault"
)

// FromKubeconfig returns the configuration for reaching a cluster from a kubeconfig file: the
// context with the cluster's name. server, if set, is the URL to use instead of the file's. An
// expired certificate is rejected here, because servers do not say why they reject one.
func FromKubeconfig(file, cluster, server string, now time.Time) (*rest.Config, error) {
	export := fmt.Sprintf("write one: kops export kubeconfig --name %s --admin", cluster)
	config, err := clientcmd.LoadFromFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fault.Wrap(fault.Gone, fmt.Errorf("there is no kubeconfig file %s", file), export)
	case err != nil:
		return nil, fault.Wrap(fault.Permanent, fmt.Errorf("read the kubeconfig file %s: %w", file, err), "correct or move the file")
	case config.Contexts[cluster] == nil:
		return nil, fault.Wrap(fault.Gone, fmt.Errorf("the kubeconfig file %s has no context %s", file, cluster), export)
	}
	o := &clientcmd.ConfigOverrides{CurrentContext: cluster, ClusterInfo: clientapi.Cluster{Server: server}}
	c, err := clientcmd.NewNonInteractiveClientConfig(*config, cluster, o, nil).ClientConfig()
	if err != nil {
		return nil, fault.Wrap(fault.Permanent, fmt.Errorf("use the context %s of the kubeconfig file %s: %w", cluster, file, err), export)
	}
	if err := checkCredentials(c, now); err != nil {
		return nil, fault.Wrap(fault.Denied, fmt.Errorf("the kubeconfig file %s: %w", file, err), "write a new one: kops export kubeconfig --name "+cluster+" --admin")
	}
	return c, nil
}

// checkCredentials rejects credentials that no server would accept.
func checkCredentials(c *rest.Config, now time.Time) error {
	text := c.CertData
	if len(text) == 0 && c.CertFile != "" {
		var err error
		if text, err = os.ReadFile(c.CertFile); err != nil {
			return err
		}
	}
	if b, _ := pem.Decode(text); b != nil {
		cert, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return fmt.Errorf("its certificate: %w", err)
		}
		if now.After(cert.NotAfter) {
			return fmt.Errorf("its certificate for %s expired at %s", cert.Subject.CommonName, cert.NotAfter.UTC().Format(time.RFC3339))
		}
		return nil
	}
	if !rest.IsConfigTransportTLS(*c) { // no credentials are sent to it
		return nil
	}
	if c.BearerToken == "" && c.BearerTokenFile == "" && c.ExecProvider == nil && c.AuthProvider == nil && c.Username == "" {
		return errors.New("it has no credentials for the cluster")
	}
	return nil
}

// cause returns what is wrong, independent of the request that failed.
func cause(err error) error {
	var request *url.Error
	if errors.As(err, &request) {
		err = request.Err
	}
	return err
}

// problem says why an API server could not be queried, and what helps.
func problem(server string, dns api.DNSType, err error) *Failure {
	f := &Failure{Kind: KindAPI, Name: server}
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var host x509.HostnameError
	var lookup *net.DNSError
	var status apierrors.APIStatus
	switch {
	case errors.As(err, &unknown):
		f.Message = "it presents a certificate that the cluster's certificate authority did not issue"
		f.Remedy = "check that the address belongs to this cluster; if the certificate authority was renewed, write the kubeconfig again: kops export kubeconfig --admin"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		f.Message = "its certificate is not valid now: " + invalid.Error()
		f.Remedy = "check the clock of this computer; if it is right, replace the machines of the control plane, which get new certificates"
	case errors.As(err, &host):
		f.Message = "its certificate is not for that name: " + host.Error()
		f.Remedy = "use the name of the API, or write the kubeconfig again: kops export kubeconfig --admin"
	case errors.Is(err, http.ErrSchemeMismatch):
		f.Message = "the server there is not an API server: it does not speak TLS"
		f.Remedy = "check option:Server and the load balancer"
	case apierrors.IsUnauthorized(err):
		f.Message = "it does not accept the credentials"
		f.Remedy = "write new ones: kops export kubeconfig --admin; if the cluster's authority was replaced, its machines must be replaced too"
	case apierrors.IsForbidden(err):
		f.Message = "the credentials lack a permission: " + lastLine(err.Error())
		f.Remedy = "use those of an administrator: kops export kubeconfig --admin"
	case errors.As(err, &lookup):
		f.Message = "its name cannot be resolved: " + lookup.Error()
		f.Remedy = "if the cluster has just been created, wait (option:Wait 10m); otherwise check its DNS zone"
		if dns == api.DNSNone { // the name is its load balancer's
			f.Remedy = "if its load balancer has just been created, wait (option:Wait 10m); otherwise check that it exists (kops update cluster), and write the kubeconfig again: kops export kubeconfig --admin"
		}
	case errors.Is(err, syscall.ECONNREFUSED):
		f.Message = "nothing listens there: connection refused"
		f.Remedy = "if the cluster is starting, wait (option:Wait 10m); to find out why its control plane is not up: kops doctor"
	case errors.Is(err, context.DeadlineExceeded) || os.IsTimeout(err):
		f.Message = "it does not answer in time"
		f.Remedy = "if the cluster is starting, wait (option:Wait 10m); check that this computer may reach it (spec.kubernetesApiAccess)"
	case errors.As(err, &status):
		s := status.Status()
		f.Message = "it is not ready: " + cmp.Or(lastLine(s.Message), string(s.Reason))
	default:
		f.Message = "it cannot be reached: " + lastLine(cause(err).Error())
		f.Remedy = "if the cluster is starting, wait (option:Wait 10m); to find out why its control plane is not up: kops doctor"
	}
	return f
}
