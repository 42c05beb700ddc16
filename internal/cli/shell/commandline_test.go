package shell

import (
	"strings"
	"testing"
)

func TestSecretsAreLeftOutOfTheCommandLine(t *testing.T) {
	for args, want := range map[string]string{
		"edit|cluster|--set|spec.assets.fileRepository=https://bob:hush@files.example.com/x":                      "edit cluster --set spec.assets.fileRepository=https://xxxxx@files.example.com/x",
		"edit|cluster|--set=spec.containerd.registryMirrors[docker.io]=https://joe:hush@reg,https://b":            "edit cluster --set=spec.containerd.registryMirrors[docker.io]=https://xxxxx@reg,https://b",
		"edit|cluster|--set|spec.egressProxy.httpProxy.host=u:hush@proxy":                                         "edit cluster --set spec.egressProxy.httpProxy.host=xxxxx@proxy",
		"edit|cluster|--set|spec.networking.egressProxy.httpProxy.host=u:hush@proxy":                              "edit cluster --set spec.networking.egressProxy.httpProxy.host=xxxxx@proxy",
		"edit|cluster|--set|spec.nodeTerminationHandler.webhookURL=https://hooks.example.com/hush":                "edit cluster --set spec.nodeTerminationHandler.webhookURL=(left out)",
		"create|cluster|--override=cluster.spec.gossipConfig.secret=hush|a":                                       "create cluster --override=cluster.spec.gossipConfig.secret=(left out) a",
		"edit|ig|nodes|--set|spec.containerd.configOverride=a\nhush = hush":                                       "edit ig nodes --set spec.containerd.configOverride=(left out)",
		"edit|ig|nodes|--set|spec.additionalUserData[0].content=hush":                                             "edit ig nodes --set spec.additionalUserData[0].content=(left out)",
		"edit|cluster|--set|spec.kubernetesVersion=1.36.3,spec.fileAssets[2].content=hush":                        "edit cluster --set spec.kubernetesVersion=(left out)",
		`edit|cluster|--set|spec.fileAssets=[{"name":"x","content":"hush"}]`:                                      "edit cluster --set spec.fileAssets=(left out)",
		"edit|cluster|--set|spec.etcdClusters[*].manager.env[0].value=hush":                                       "edit cluster --set spec.etcdClusters[*].manager.env[0].value=(left out)",
		`edit|cluster|--set|"spec.nodeTerminationHandler.webhookURL=https://hooks/a,hush"`:                        `edit cluster --set "spec.nodeTerminationHandler.webhookURL=(left out)`,
		"create|-f|https://u:hush@h/x?sig=hush":                                                                   "create -f https://xxxxx@h/x?xxxxx",
		"edit|ig|nodes|--set|spec.maxSize=5|--set=spec.minSize=5":                                                 "edit ig nodes --set spec.maxSize=5 --set=spec.minSize=5",
		"edit|cluster|--set|spec.etcdClusters[*].version=3.6.6|--set|spec.sshAccess=192.0.2.0/24,198.51.100.0/24": "edit cluster --set spec.etcdClusters[*].version=3.6.6 --set spec.sshAccess=192.0.2.0/24,198.51.100.0/24",
		"edit|ig|nodes|--set|spec.taints=a=b:NoSchedule|--set|metadata.labels[a.b/c]=d":                           "edit ig nodes --set spec.taints=a=b:NoSchedule --set metadata.labels[a.b/c]=d",
		"edit|cluster|--set|spec.subnets[1].cidr=10.0.0.0/24|--set|spec.cloudConfig.awsEBSCSIDriver.enabled=true": "edit cluster --set spec.subnets[1].cidr=10.0.0.0/24 --set spec.cloudConfig.awsEBSCSIDriver.enabled=true",
		"create|cluster|--cloud-labels|Owner=me|--state|s3://b|a.example.com":                                     "create cluster --cloud-labels Owner=me --state s3://b a.example.com",
	} {
		if got := CommandLine(strings.Split(args, "|")); got != "kops "+want {
			t.Errorf("%s:\ngot  %s\nwant kops %s", args, got, want)
		}
	}
}
