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
	c := shell.Cobra("keypair {KEYSET | all}", "Add a certificate and its key to a keyset", `
Add an item to a keyset: a new authority, or that of files. It is believed beside the
others, and signs when it is promoted, or with --primary at once. Without --cert and
--key, both are made; with --key alone, a certificate is made of it; with --cert alone
the item is believed and can never sign. all adds a new item to every keyset.`, `
  kops create keypair all --name cluster.example.com
  kops create keypair kubernetes-ca --name cluster.example.com --cert ca.pem --key ca-key.pem`,
		func(ctx context.Context, args []string) error {
			keyset, ids, err := keypairs.Named(args)
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
				if *f.to, err = app.ReadFile(f.name); err != nil {
					return err
				}
			}
			return keypairs.Do(ctx, app, "Created", func(k kops.Keypairs, cluster string) ([]kops.KeypairChange, error) {
				return k.Create(ctx, cluster, keyset, o)
			})
		})
	c.Flags().StringVar(&certificate, "cert", "", "file of the certificate, in PEM")
	c.Flags().StringVar(&key, "key", "", "file of the private key, in PEM")
	c.Flags().BoolVar(&o.Primary, "primary", false, "sign with it from now on")
	c.ValidArgsFunction = keypairs.Complete(app, true)
	return c
}
