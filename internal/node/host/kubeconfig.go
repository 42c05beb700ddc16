package host

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

// kubeconfig holds the fields that a machine's components need.
type kubeconfig struct {
	APIVersion     string         `json:"apiVersion"`
	Kind           string         `json:"kind"`
	Clusters       []namedCluster `json:"clusters"`
	Contexts       []namedContext `json:"contexts"`
	CurrentContext string         `json:"current-context"`
	Users          []namedUser    `json:"users"`
}

type namedCluster struct {
	Name    string `json:"name"`
	Cluster struct {
		CA     []byte `json:"certificate-authority-data"`
		Server string `json:"server"`
	} `json:"cluster"`
}

type namedContext struct {
	Name    string `json:"name"`
	Context struct {
		Cluster string `json:"cluster"`
		User    string `json:"user"`
	} `json:"context"`
}

type namedUser struct {
	Name string `json:"name"`
	User struct {
		Certificate []byte `json:"client-certificate-data"`
		Key         []byte `json:"client-key-data"`
	} `json:"user"`
}

// The names within a machine's kubeconfigs.
const (
	kubeconfigCluster = "local"
	kubeconfigContext = "service-account-context"
)

func writeKubeconfig(s certificateFiles) ([]byte, error) {
	k := kubeconfig{APIVersion: "v1", Kind: "Config", CurrentContext: kubeconfigContext,
		Clusters: make([]namedCluster, 1), Contexts: make([]namedContext, 1), Users: make([]namedUser, 1)}
	k.Clusters[0].Name, k.Contexts[0].Name, k.Users[0].Name = kubeconfigCluster, kubeconfigContext, s.user
	k.Clusters[0].Cluster.CA, k.Clusters[0].Cluster.Server = s.ca, s.server
	k.Contexts[0].Context.Cluster, k.Contexts[0].Context.User = kubeconfigCluster, s.user
	k.Users[0].User.Certificate, k.Users[0].User.Key = s.certificate, s.key
	text, err := yaml.Marshal(k)
	if err != nil {
		return nil, fmt.Errorf("write a kubeconfig: %w", err)
	}
	return text, nil
}

// ClientCertificate returns the certificate in a kubeconfig, with its key, or nil if
// there is none.
func ClientCertificate(file string) *tls.Certificate {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	s := readKubeconfig(text)
	c, err := tls.X509KeyPair(s.certificate, s.key)
	if err != nil {
		return nil
	}
	return &c
}

// readKubeconfig parses the output of writeKubeconfig; from anything else it returns what it can find.
func readKubeconfig(text []byte) certificateFiles {
	var k kubeconfig
	if yaml.Unmarshal(text, &k) != nil || len(k.Clusters) == 0 || len(k.Users) == 0 {
		return certificateFiles{}
	}
	c, u := k.Clusters[0].Cluster, k.Users[0]
	return certificateFiles{certificate: u.User.Certificate, key: u.User.Key, ca: c.CA, server: c.Server, user: u.Name}
}

// ReadKubeconfig returns the server of a machine's kubeconfig, and its TLS configuration,
// whose first certificate is the user's, parsed. If there is no file, the error is
// fs.ErrNotExist.
func ReadKubeconfig(file string) (server string, config *tls.Config, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", nil, err
	}
	s := readKubeconfig(text)
	pair, err := tls.X509KeyPair(s.certificate, s.key)
	if err != nil {
		return "", nil, fmt.Errorf("read the kubeconfig %s: %w", file, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(s.ca) {
		return "", nil, fmt.Errorf("read the kubeconfig %s: it has no certificate of an authority", file)
	}
	return s.server, &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}
