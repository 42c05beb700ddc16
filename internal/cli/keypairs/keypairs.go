// Package keypairs implements `kops promote keypair`, `kops distrust keypair` and `kops trust
// keypair`, and what the other commands for keysets share with them.
package keypairs

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"kops.local/kops"
	"kops.local/kops/internal/cli/shell"
)

// Commands returns the three commands.
func Commands(app *shell.App) []*cobra.Command {
	return []*cobra.Command{
		verb("promote", "Make another key of a keyset the signing key", promote(app), app),
		verb("distrust", "Distrust keys of a keyset", distrust(app), app),
		verb("trust", "Trust keys of a keyset again", trust(app), app),
	}
}

func verb(name, short string, keypair *cobra.Command, app *shell.App) *cobra.Command {
	c := &cobra.Command{Use: name, Short: short, Example: keypair.Example}
	keypair.ValidArgsFunction = Complete(app, name != "trust")
	c.AddCommand(keypair)
	return c
}

func promote(app *shell.App) *cobra.Command {
	return shell.Cobra("keypair {KEYSET [ID] | all}", "Make another key of a keyset the signing key", `
Make a key the primary key of its keyset, which signs: the key with the given ID, or
the newest key that can sign. Machines have to trust the key first, so run kops update
cluster and a rolling update after creating it and before promoting it. kops rotate
does all of these steps.`, `
  kops promote keypair all --name cluster.example.com
  kops promote keypair service-account --name cluster.example.com`,
		func(ctx context.Context, args []string) error {
			keyset, ids, err := ParseArgs(args)
			switch {
			case err != nil:
				return err
			case len(ids) > 1:
				return shell.Usagef("specify only one key")
			}
			id := append(ids, "")[0]
			return Do(ctx, app, "Promoted", func(k kops.Keypairs, cluster string) ([]kops.KeypairChange, error) {
				return k.Promote(ctx, cluster, keyset, id)
			})
		})
}

func distrust(app *shell.App) *cobra.Command {
	return shell.Cobra("keypair {KEYSET [ID]... | all}", "Distrust keys of a keyset", `
Mark keys of a keyset as distrusted: the keys with the given IDs, or all keys older
than the primary key, which itself cannot be distrusted. After their next update,
machines reject everything that such a key signed. kops rotate first proves that
nothing uses the key.`, `
  kops distrust keypair all --name cluster.example.com
  kops distrust keypair kubernetes-ca 6977545226837259959403993899 --name cluster.example.com`,
		func(ctx context.Context, args []string) error {
			keyset, ids, err := ParseArgs(args)
			if err != nil {
				return err
			}
			return Do(ctx, app, "Distrusted", func(k kops.Keypairs, cluster string) ([]kops.KeypairChange, error) {
				return k.Distrust(ctx, cluster, keyset, ids...)
			})
		})
}

func trust(app *shell.App) *cobra.Command {
	return shell.Cobra("keypair KEYSET ID...", "Trust keys of a keyset again", `
Trust keys of a keyset that were distrusted. kops get keypairs --distrusted shows them.`, `
  kops trust keypair kubernetes-ca 6977545226837259959403993899 --name cluster.example.com`,
		func(ctx context.Context, args []string) error {
			if len(args) < 2 {
				return shell.Usagef("specify a keyset and the IDs of the keys to trust")
			}
			return Do(ctx, app, "Trusted", func(k kops.Keypairs, cluster string) ([]kops.KeypairChange, error) {
				return k.Trust(ctx, cluster, args[0], args[1:]...)
			})
		})
}

// ParseArgs returns the keyset that a command names, and the items.
func ParseArgs(args []string) (keyset string, ids []string, err error) {
	switch {
	case len(args) == 0:
		return "", nil, shell.Usagef("specify a keyset, or all")
	case args[0] == kops.AllKeysets && len(args) > 1:
		return "", nil, shell.Usagef("all stands for every keyset, and cannot be combined with an ID")
	}
	return args[0], args[1:], nil
}

// Do changes keysets, and prints a line about what was done to each item.
func Do(ctx context.Context, app *shell.App, done string, f func(k kops.Keypairs, cluster string) ([]kops.KeypairChange, error)) error {
	cluster, client, err := app.Open(ctx, nil)
	if err != nil {
		return err
	}
	changes, err := f(client.Keypairs(app.On(nil)), cluster)
	changed := false
	for _, c := range changes {
		switch {
		case !c.Unchanged:
			changed = true
			app.Printf("%s %s %s\n", done, c.Keyset, c.ID)
		case done == "Promoted":
			app.Printf("No %s keypair newer than current primary %s\n", c.Keyset, c.ID)
		default:
			app.Printf("Unchanged: %s %s\n", c.Keyset, c.ID)
		}
	}
	if err == nil && !changed && len(changes) == 0 {
		app.Notef("No keypair is older than the primary keypair\n")
	}
	if changed {
		app.Notef("\nTo apply this to machines, run: kops update cluster %s --yes\n", cluster)
	}
	return err
}

// Complete offers keysets, and then the IDs of items.
func Complete(app *shell.App, all bool) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
		return shell.Offer(app, func(ctx context.Context, client *kops.Client, _ []string) ([]string, error) {
			cluster, err := app.ClusterName(nil)
			if err != nil {
				return nil, err
			}
			items, err := client.Keypairs(nil).List(ctx, cluster, args[:min(len(args), 1)]...)
			var out []string
			for _, i := range items {
				word := i.ID
				if len(args) == 0 {
					word = i.Keyset
				}
				if !slices.Contains(out, word) {
					out = append(out, word)
				}
			}
			if all && len(args) == 0 {
				out = append(out, kops.AllKeysets)
			}
			return out, err
		})(c, args, start)
	}
}
