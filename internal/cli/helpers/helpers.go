// Package helpers implements `kops helpers`: commands that other programs run, not users.
package helpers

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kops.local/kops/internal/cli/shell"
)

// Command returns the command.
func Command(app *shell.App) *cobra.Command {
	c := &cobra.Command{Use: "helpers", Short: "Commands that other programs run", Hidden: true,
		Example: "  kops helpers kubectl-auth --cluster cluster.example.com --state s3://my-state-store"}
	c.AddCommand(kubectlAuth(app))
	return c
}

// request is kubectl's request.
type request struct {
	version, cluster string
	life             time.Duration
}

// versions returns the versions of the credential that kubectl may request.
func versions() []string { return []string{"v1alpha1", "v1beta1", "v1"} }

func kubectlAuth(app *shell.App) *cobra.Command {
	var r request
	c := shell.Cobra("kubectl-auth", "Print credentials for kubectl", `
Print a short-lived certificate with full rights as an ExecCredential. kubectl runs
this command if the kubeconfig file was written by 'kops export kubeconfig
--auth-plugin'. The certificate is cached in ~/.kube/cache until shortly before it
expires.`, `
  kops helpers kubectl-auth --cluster cluster.example.com --state s3://my-state-store`,
		func(ctx context.Context, _ []string) error {
			if r.cluster == "" {
				return shell.Usagef("--cluster is required")
			}
			if !slices.Contains(versions(), r.version) {
				return shell.Usagef("unknown --api-version %q; use %s", r.version, strings.Join(versions(), ", "))
			}
			if r.life <= 0 {
				return shell.Usagef("--lifetime %v: specify a duration such as 1h", r.life)
			}
			return credential(ctx, app, r)
		})
	c.Args = shell.NoArguments("specify the cluster with --cluster")
	f := c.Flags()
	f.StringVar(&r.version, "api-version", "v1beta1", "version of the credential: v1alpha1, v1beta1 or v1")
	f.StringVar(&r.cluster, "cluster", "", "name of the cluster")
	f.DurationVar(&r.life, "lifetime", time.Hour, "lifetime of the certificate")
	return c
}

// execCredential is the response that kubectl expects, in all of its versions. See
// client.authentication.k8s.io in the Kubernetes documentation.
type execCredential struct {
	Kind       string      `json:"kind"`
	APIVersion string      `json:"apiVersion"`
	Spec       struct{}    `json:"spec"`
	Status     certificate `json:"status"`
}

type certificate struct {
	Expires     time.Time `json:"expirationTimestamp"`
	Certificate string    `json:"clientCertificateData"`
	Key         string    `json:"clientKeyData"`
}

func credential(ctx context.Context, app *shell.App, r request) error {
	state, err := app.StateStore()
	if err != nil {
		return err
	}
	file := cacheFile(app.Home, state, r.cluster)
	c, ok := cached(file, app.Now(), r.life)
	if !ok {
		if c, err = issue(ctx, app, r); err != nil {
			return err
		}
		keep(app, file, c)
	}
	return app.PrintJSON(execCredential{Kind: "ExecCredential", APIVersion: "client.authentication.k8s.io/" + r.version, Status: c})
}

func issue(ctx context.Context, app *shell.App, r request) (certificate, error) {
	client, err := app.Client(ctx)
	if err != nil {
		return certificate{}, err
	}
	cert, key, err := client.AdminCertificate(ctx, r.cluster, r.life)
	if err != nil {
		return certificate{}, err
	}
	block, _ := pem.Decode(cert)
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return certificate{}, fmt.Errorf("read the new certificate: %w", err)
	}
	return certificate{Expires: parsed.NotAfter.UTC(), Certificate: string(cert), Key: string(key)}, nil
}

// cacheFile returns where kOps, too, keeps the credential of a cluster: a readable prefix, and a
// digest of the state store and the full name. It is empty if there is no such place.
func cacheFile(home, state, cluster string) string {
	if home == "" {
		return ""
	}
	readable := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, cluster)
	sum := sha256.Sum224([]byte(state + "\x00" + cluster + "\x00"))
	name := readable[:min(32, len(readable))] + "_" + new(big.Int).SetBytes(sum[:]).Text(62)
	return filepath.Join(home, ".kube", "cache", "kops-authentication", name)
}

// cached returns the cached credential, unless it expires soon, or is valid for longer than
// requested.
func cached(file string, now time.Time, life time.Duration) (c certificate, ok bool) {
	data, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(data, &c) != nil || c.Certificate == "" || c.Key == "" {
		return c, false
	}
	left := c.Expires.Sub(now)
	return c, left > life/10 && left <= life
}

// keep writes a credential that only its owner may read. A cache that cannot be written only costs
// time.
func keep(app *shell.App, file string, c certificate) {
	if file == "" {
		return
	}
	data, err := json.Marshal(c)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o755) //nolint:gosec // the file in it is private
	}
	if err == nil {
		err = replaceFile(file, data)
	}
	if err != nil {
		app.Notef("warning: the credential could not be cached: %v\n", err)
	}
}

// replaceFile writes a private file atomically, as kubectl may run this twice concurrently.
func replaceFile(file string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(file), ".new-")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error is reported
	}
	return err
}
