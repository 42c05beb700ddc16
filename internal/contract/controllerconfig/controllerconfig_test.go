package controllerconfig_test

import (
	"strings"
	"testing"

	"kops.local/kops/internal/contract/controllerconfig"
)

const sample = `
clusterName: c.example.com
cloud: aws
configBase: s3://bucket/c.example.com
secretStore: s3://bucket/c.example.com/secrets
server:
  Listen: :3988
  caBasePath: /etc/kubernetes/kops-controller/pki
  certNames: [kubelet, kubelet-server, kube-proxy]
  provider:
    aws:
      Region: us-east-1
      nodesRoles: [nodes.c.example.com]
  serverCertificatePath: /etc/kubernetes/kops-controller/pki/kops-controller.crt
  serverKeyPath: /etc/kubernetes/kops-controller/pki/kops-controller.key
  signingCAs: [kubernetes-ca]
discovery: {}
`

func TestTheConfigurationIsRead(t *testing.T) {
	c, err := controllerconfig.Parse([]byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	var aws struct {
		Region     string
		NodesRoles []string
	}
	if err := c.Section(&aws); err != nil {
		t.Fatal(err)
	}
	if c.Server.Listen != ":3988" || aws.Region != "us-east-1" || len(aws.NodesRoles) != 1 || len(c.Server.CertNames) != 3 {
		t.Errorf("got %+v, %+v", c, aws)
	}
	var number struct{ Region int }
	if err := c.Section(&number); err == nil || !strings.Contains(err.Error(), "server.provider.aws") {
		t.Errorf("got %v", err)
	}
}

func TestBadConfigurationsAreRefused(t *testing.T) {
	for text, says := range map[string]string{
		"{":  "read the configuration",
		"{}": "server.serverKeyPath is not set",
		strings.Replace(sample, "kube-proxy", "kubecfg", 1): `no certificate is called "kubecfg"`,
	} {
		if _, err := controllerconfig.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
	}
}
