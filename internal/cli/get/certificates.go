package get

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"kops.local/kops"
	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/cli/validate"
)

func (g *subcommand) certificates() *cobra.Command {
	var o kops.ReachOptions
	c := shell.Cobra("certificates [CLUSTER]", "Show all certificates of a cluster", `
Show all certificates of a cluster and when they expire: its certificate authorities,
the certificates that nodes report, the API server's certificate, and the user's
certificate in the kubeconfig file. SIGNER is the key that signed the certificate;
NOTE is "former" if that key no longer signs, and "distrusted" if it is no longer
trusted.`, `
  kops get certificates cluster.example.com
  kops get certificates cluster.example.com -o json`,
		func(ctx context.Context, args []string) error {
			if err := g.check(); err != nil {
				return err
			}
			name, client, err := g.Open(ctx, args)
			if err != nil {
				return err
			}
			validate.Reach(g.App, &o)
			all, err := client.Certificates(ctx, name, o, g.On(nil))
			if err != nil {
				return err
			}
			if all.Problem != nil {
				g.Notef("warning: only the certificate authorities are shown, because the API server did not answer: %v\n", all.Problem)
			}
			for _, n := range all.Silent {
				g.Notef("warning: node %s does not report its certificates\n", n)
			}
			return printList(g, all.All, []string{"HOLDER", "FILE", "SUBJECT", "ENDS", "KEYSET", "SIGNER", "NOTE"}, func(c kops.Certificate) []string {
				return []string{c.Holder, c.File, c.Subject, c.Ends.Local().Format(time.RFC3339), c.Keyset, c.Signer, remark(c)}
			})
		})
	validate.ReachFlags(c, &o)
	c.Aliases = []string{"certificate", "certs"}
	c.ValidArgsFunction = shell.CompleteCluster(g.App)
	return c
}

// remark returns a remark about the authority of a certificate.
func remark(c kops.Certificate) string {
	switch {
	case c.Distrusted:
		return "distrusted"
	case c.Former:
		return "former"
	case c.Keyset == "":
		return "unknown authority"
	}
	return ""
}
