// Package kubeconfig adds a cluster to a user's kubeconfig file, and removes it again, without
// losing other contents.
//
// It must not know where certificates come from.
package kubeconfig

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"kops.local/kops/internal/contract/pki"
)

// Entry is a cluster's entry in a kubeconfig: its cluster, context and user all have the cluster's
// name.
type Entry struct {
	Cluster string
	// Server is the URL of the API; if empty, no address is written.
	Server string
	// TLSServerName is the name that the server's certificate is verified against.
	TLSServerName string
	// CA is a PEM bundle; empty means the system's authorities.
	CA []byte
	// User, if set, is an existing user entry that the context refers to.
	User string
	// Certificate and Key are PEM; if empty, the cluster's user is not changed.
	Certificate, Key []byte
	// Exec runs a command that gets credentials, instead of a certificate.
	Exec *clientapi.ExecConfig
}

// Write merges the entry into a file, which need not exist, and makes it the current context. Other
// settings of the cluster and the context, such as a proxy or a namespace, are kept. The file gets
// mode 0600.
func Write(path string, e Entry) error {
	c, err := load(path)
	if err != nil {
		return err
	}
	cluster := cmp.Or(c.Clusters[e.Cluster], clientapi.NewCluster())
	cluster.Server, cluster.TLSServerName, cluster.CertificateAuthorityData = e.Server, e.TLSServerName, e.CA
	cluster.CertificateAuthority, cluster.InsecureSkipTLSVerify = "", false // CA replaces them
	c.Clusters[e.Cluster] = cluster
	context := cmp.Or(c.Contexts[e.Cluster], clientapi.NewContext())
	context.Cluster = e.Cluster
	switch {
	case e.User != "":
		if c.AuthInfos[e.User] == nil {
			return fmt.Errorf("%s has no user %q; name an existing one with option:User, or use option:Admin", path, e.User)
		}
		context.AuthInfo = e.User
	case e.Exec != nil:
		user := clientapi.NewAuthInfo()
		user.Exec = e.Exec
		c.AuthInfos[e.Cluster], context.AuthInfo = user, e.Cluster
	case len(e.Certificate) > 0:
		user := clientapi.NewAuthInfo()
		user.ClientCertificateData, user.ClientKeyData = e.Certificate, e.Key
		c.AuthInfos[e.Cluster], context.AuthInfo = user, e.Cluster
	}
	if context.AuthInfo == "" {
		context.AuthInfo = e.Cluster
	}
	c.Contexts[e.Cluster] = context
	c.CurrentContext = e.Cluster
	return save(path, c)
}

// CurrentCluster returns the cluster of the current context, or "". Of several files, the first
// that sets one wins, as in kubectl; unreadable files are ignored.
func CurrentCluster(paths ...string) string {
	c, _ := (&clientcmd.ClientConfigLoadingRules{Precedence: paths}).Load() // see above
	if c == nil || c.Contexts[c.CurrentContext] == nil {
		return ""
	}
	return c.Contexts[c.CurrentContext].Cluster
}

// Remove removes a cluster's entries from a file, and the current context if it has the cluster's
// name, even if another file defines it. It reports whether there was anything to remove.
func Remove(path, cluster string) (bool, error) {
	c, err := load(path)
	if err != nil {
		return false, err
	}
	found := c.Clusters[cluster] != nil || c.Contexts[cluster] != nil || c.AuthInfos[cluster] != nil || c.CurrentContext == cluster
	if !found {
		return false, nil
	}
	delete(c.Clusters, cluster)
	delete(c.Contexts, cluster)
	delete(c.AuthInfos, cluster)
	delete(c.AuthInfos, cluster+"-basic-auth")
	if c.CurrentContext == cluster {
		c.CurrentContext = ""
	}
	return true, save(path, c)
}

// load reads a file. A device or a pipe, such as /dev/stdout, is only written.
func load(path string) (*clientapi.Config, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return clientapi.NewConfig(), nil
	}
	c, err := clientcmd.LoadFromFile(path)
	if err == nil {
		err = checkKind(path, c)
	}
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read as a kubeconfig: %w; correct or move the file", path, err)
	}
	return c, nil
}

// checkKind rejects a file without entries that is something else, which the library ignores, and
// which writing would lose.
func checkKind(path string, c *clientapi.Config) error {
	if len(c.Clusters)+len(c.Contexts)+len(c.AuthInfos) > 0 || c.CurrentContext != "" {
		return nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var doc map[string]any
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return err
	}
	if len(doc) > 0 && doc["kind"] != "Config" {
		return errors.New("it has other contents")
	}
	return nil
}

// save sets the file's mode to 0600 if the user may do so: another user's file, and a file on a
// file system without modes, keep theirs.
func save(path string, c *clientapi.Config) error {
	info, err := os.Stat(path)
	if err == nil && info.Mode().IsRegular() { // not a device, such as /dev/null
		err = os.Chmod(path, 0o600) // the next call sets the mode of new files only
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		err = clientcmd.WriteToFile(*c, path)
	}
	if err != nil {
		return fmt.Errorf("write kubeconfig %s: %w", path, err)
	}
	return nil
}

// Renew replaces the authorities that a file's cluster trusts, and its user's certificate if it is
// an administrator's that the replaced authorities have signed: issue creates one that expires at a
// given time, or none. issue may be nil. Everything else is kept. It reports whether anything was
// written.
func Renew(path, cluster string, ca []byte, issue func(ends time.Time) (certificate, key []byte, err error)) (bool, error) {
	c, err := load(path)
	if err != nil {
		return false, err
	}
	at := c.Clusters[cluster]
	if at == nil || len(at.CertificateAuthorityData) == 0 || len(ca) == 0 {
		return false, nil
	}
	changed := !bytes.Equal(at.CertificateAuthorityData, ca)
	if user := c.AuthInfos[cluster]; user != nil && issue != nil {
		if old := administrators(user.ClientCertificateData, at.CertificateAuthorityData, ca); old != nil {
			certificate, key, err := issue(old.NotAfter)
			if err != nil {
				return false, err
			}
			if len(certificate) > 0 {
				user.ClientCertificateData, user.ClientKeyData, changed = certificate, key, true
			}
		}
	}
	if at.CertificateAuthorityData = ca; !changed {
		return false, nil
	}
	return true, save(path, c)
}

// administrators returns the certificate if it is an administrator's and was signed by one of the
// authorities; otherwise nil.
func administrators(text []byte, authorities ...[]byte) *x509.Certificate {
	c, err := pki.ParseCertificate(text)
	if err != nil || !slices.Contains(c.Subject.Organization, "system:masters") {
		return nil
	}
	pool := x509.NewCertPool()
	for _, a := range authorities {
		pool.AppendCertsFromPEM(a)
	}
	if _, err := c.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: c.NotBefore, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
		return nil
	}
	return c
}

// HasUser reports whether a file has credentials under the cluster's name.
func HasUser(path, cluster string) bool {
	c, err := load(path)
	return err == nil && c.AuthInfos[cluster] != nil
}
