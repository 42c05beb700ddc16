package node_test

import (
	"testing"

	"kops.local/kops/internal/contract/pki"
)

func TestTokensAreOnAMachineOnlyWhereTheAPIServerReadsThem(t *testing.T) {
	const file = "/srv/kubernetes/kube-apiserver/known_tokens.csv"
	in := controlPlane(t)
	in.Secrets = map[string]pki.Secret{"admin": pki.NewSecret("xyz"), "kube": pki.NewSecret("abc")}
	if got, _ := texts(t, in); got[file] != "" {
		t.Errorf("%s holds %q", file, got[file])
	}
	in.Config.APIServerConfig.KubeAPIServer.TokenAuthFile = file
	if got, _ := texts(t, in); got[file] != "abc,kube,kube\nxyz,admin,admin,system:masters\n" {
		t.Errorf("%s holds %q", file, got[file])
	}
}
