package run

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"kops.local/kops/internal/contract/controllerconfig"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/node/controller"
)

// The cluster's authority is replaced while this program runs.
func TestTheAuthoritiesAreReadWhenTheyChange(t *testing.T) {
	dir, write := files(t)
	conf := &controllerconfig.Config{}
	conf.Server.CABasePath, conf.Server.SigningCAs = dir, []string{pki.KubernetesCA}
	if _, err := newCurrent(conf, &controller.Server{}, nil); err == nil {
		t.Error("it serves without an authority")
	}
	_, first := material(t, write)
	c, err := newCurrent(conf, &controller.Server{Log: slog.New(slog.DiscardHandler)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	signs := func() string { return c.server.Load().Signers[pki.KubernetesCA].Primary }
	old := c.server.Load()
	if err := c.load(); err != nil || signs() != first || c.server.Load() != old {
		t.Errorf("nothing changed, and %s signs: %v", signs(), err)
	}
	key, err := os.ReadFile(filepath.Join(dir, "kubernetes-ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	_, second := material(t, write)
	fresh, err := os.ReadFile(filepath.Join(dir, "kubernetes-ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	write("kubernetes-ca.key", string(key)) // while the files are written, the key does not match the certificate
	if err := c.load(); err == nil || signs() != first {
		t.Errorf("the files do not fit, and %s signs: %v", signs(), err)
	}
	write("kubernetes-ca.key", string(fresh))
	if err := c.load(); err != nil || signs() != second || c.server.Load().Trusted.Equal(old.Trusted) {
		t.Errorf("%s signs, want %s: %v", signs(), second, err)
	}
}
