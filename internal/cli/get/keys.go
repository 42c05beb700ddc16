package get

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kops.local/kops"
	"kops.local/kops/internal/cli/keypairs"
	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/engine/fault"
)

func (g *subcommand) secrets() *cobra.Command {
	var kind string
	c := shell.Cobra("secrets [NAME]...", "Show the names of secrets", `
Show the names of all secrets of a cluster in the state store, or only the named ones.
Their values are never shown.`, `
  kops get secrets --name cluster.example.com`,
		func(ctx context.Context, args []string) error {
			switch {
			case g.format == "plaintext":
				return fault.New(fault.Denied, "the value of a secret is not shown; if you may read the state store, find it there under secrets/")
			case strings.EqualFold(kind, "keypair") || strings.EqualFold(kind, "sshpublickey"):
				return shell.Usagef("to list these, run: kops get %ss", strings.ToLower(kind))
			case kind != "" && !strings.EqualFold(kind, "secret"):
				return shell.Usagef("unknown type of secret %q; use Secret", kind)
			}
			named := args
			return list(ctx, g, nil, func(client *kops.Client, ctx context.Context, cluster string) ([]secret, error) {
				names, err := client.Secrets(nil).List(ctx, cluster)
				var out []secret
				for _, n := range names {
					if len(named) == 0 || slices.Contains(named, n) {
						out = append(out, secret{n})
					}
				}
				if err == nil && len(out) == 0 && len(named) > 0 {
					err = fault.New(fault.Gone, "cluster %s has no secret %s", cluster, strings.Join(named, ", "))
				}
				return out, err
			}, []string{"NAME"}, func(s secret) []string { return []string{s.Name} })
		})
	c.Aliases = []string{"secret"}
	c.Flags().StringVar(&kind, "type", "", "accepted: Secret")
	if err := c.Flags().MarkHidden("type"); err != nil {
		panic(err) // the flag does not exist: a bug in the line above
	}
	c.ValidArgsFunction = shell.CompleteSecrets(g.App)
	return c
}

// secret is what is shown of a secret.
type secret struct {
	Name string `json:"name"`
}

func (g *subcommand) keypairs() *cobra.Command {
	var distrusted bool
	c := shell.Cobra("keypairs [KEYSET]...", "Show certificate authorities and their keys", `
Show the keys in all keysets of a cluster, or only in the named ones: certificate
authorities, and the keys that sign service account tokens. PRIMARY marks the key that
signs, HASPRIVATE a key whose private part is in the state store. kops get
certificates shows the certificates that they signed.`, `
  kops get keypairs --name cluster.example.com
  kops get keypairs kubernetes-ca --distrusted --name cluster.example.com -o json`,
		func(ctx context.Context, args []string) error {
			header := []string{"NAME", "ID", "ISSUED", "EXPIRES", "PRIMARY", "HASPRIVATE"}
			if distrusted {
				header = slices.Insert(header, 4, "DISTRUSTED")
			}
			return list(ctx, g, nil, func(client *kops.Client, ctx context.Context, cluster string) ([]kops.Keypair, error) {
				all, err := client.Keypairs(nil).List(ctx, cluster, args...)
				if err != nil {
					return nil, err
				}
				all = slices.DeleteFunc(all, func(k kops.Keypair) bool { return k.Distrusted != nil && !distrusted })
				if len(all) == 0 {
					return nil, fault.Wrap(fault.Gone, fmt.Errorf("no keypairs found"), "kops update cluster "+cluster+" --yes creates those of a new cluster")
				}
				return all, nil
			}, header, func(k kops.Keypair) []string {
				row := []string{k.Keyset, k.ID, date(k.NotBefore), date(k.NotAfter), star(k.Primary), star(k.HasPrivateKey)}
				if distrusted {
					row = slices.Insert(row, 4, date(k.Distrusted))
				}
				return row
			})
		})
	c.Aliases = []string{"keypair"}
	c.Flags().BoolVar(&distrusted, "distrusted", false, "also show keys that are no longer trusted")
	c.ValidArgsFunction = keypairs.Complete(g.App, false)
	return c
}

// date formats the day of a time in the user's time zone.
func date(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.Local().Format(time.DateOnly)
}

func star(b bool) string {
	if b {
		return "*"
	}
	return ""
}
