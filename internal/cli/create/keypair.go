package create

import (
	"context"

	"github.com/spf13/cobra"

	"kops.local/kops"
	"kops.local/kops/internal/cli/keypairs"
	"kops.local/kops/internal/cli/shell"
)

func keypair(app *shell.App) *cobra.Command {
	var o kops.CreateKeypairOptions
	var certificate, key string
	c := shell.Cobra("keypair {KEYSET | all}", "Add a key to a keyset", `
Add a key to a keyset: a new certificate authority, or one from files. Machines trust
it next to the existing keys. It signs after you promote it, or at once with
--primary. Without --cert and --key, kops creates both; with only --key, kops creates
the certificate; with only --cert, the key is trusted but can never sign. The keyset
"all" stands for every keyset.`, `
  kops create keypair all --name cluster.example.com
  kops create keypair kubernetes-ca --name cluster.example.com --cert ca.pem --key ca-key.pem`,
		func(ctx context.Context, args []string) error {
			keyset, ids, err := keypairs.ParseArgs(args)
			if err == nil && len(ids) > 0 {
				err = shell.Usagef("one keyset at a time")
			}
			if err != nil {
				return err
			}
			for _, f := range []struct {
				name string
				to   *[]byte
			}{{certificate, &o.Certificate}, {key, &o.Key}} {
				if f.name == "" {
					continue
				}
				if *f.to, err = app.ReadFile(ctx, f.name); err != nil {
					return err
				}
			}
			return keypairs.Do(ctx, app, "Created", func(k kops.Keypairs, cluster string) ([]kops.KeypairChange, error) {
				return k.Create(ctx, cluster, keyset, o)
			})
		})
	c.Flags().StringVar(&certificate, "cert", "", "file of the certificate, in PEM")
	c.Flags().StringVar(&key, "key", "", "file of the private key, in PEM")
	c.Flags().BoolVar(&o.Primary, "primary", false, "make it the signing key at once")
	c.ValidArgsFunction = keypairs.Complete(app, true)
	return c
}
