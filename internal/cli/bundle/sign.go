package bundle

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/ops/bundle"
)

func sign(app *shell.App) *cobra.Command {
	var dir, key string
	c := shell.Cobra("sign", "Sign a bundle with your key", `
Sign the index of a bundle, bundle.json, which states the digest of each file and
image. The signature is written to bundle.json.sig next to it. Any change of the
bundle removes the signature.

A cluster takes all digests from the signed index of its spec.assets.fileRepository if
its spec.assets.trustedKeys has the public key. Someone who can write to that place,
or to the registry, still cannot change which binaries machines run.

Keys have the formats of openssl: Ed25519, or ECDSA on P-256. If your key is kept
elsewhere, sign bundle.json there and write the base64 signature to bundle.json.sig.`, `
  openssl genpkey -algorithm ed25519 -out key.pem      # once; keep it secret
  kops bundle sign --key key.pem --dir ./bundle
  kops bundle push s3://my-files/kops --dir ./bundle`,
		func(ctx context.Context, _ []string) error {
			if key == "" {
				return shell.Usagef("--key is required: the file of a private key")
			}
			b, err := openBundle(app, dir)
			if err != nil {
				return err
			}
			text, err := app.ReadFile(ctx, key)
			if err != nil {
				return err
			}
			public, err := b.Sign(text)
			if err != nil {
				return err
			}
			app.Printf("The bundle %s is signed. To make a cluster trust the key, set\n\nspec:\n  assets:\n    trustedKeys:\n    - |\n%s", b.Dir(), indent(public))
			return nil
		})
	c.Args = shell.NoArguments("")
	dirFlag(c, &dir)
	c.Flags().StringVar(&key, "key", "", "file with the private key in PEM")
	return c
}

func indent(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString("      " + line)
	}
	return out.String()
}

func keyFlag(c *cobra.Command, keys *[]string) {
	c.Flags().StringArrayVar(keys, "key", nil, "`file` with a public key; the bundle must be signed by one of these keys")
}

// verifySignature checks that one of the keys in files has signed a bundle, and returns the keys.
// Without files, no signature is required.
func verifySignature(ctx context.Context, app *shell.App, b *bundle.Bundle, files []string) ([]string, error) {
	if len(files) == 0 {
		return nil, nil
	}
	keys, err := publicKeys(ctx, app, files)
	if err != nil {
		return nil, err
	}
	if err := b.VerifySignature(keys...); err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(files, ", "), err)
	}
	app.Notef("The bundle is signed by %s\n", strings.Join(files, " or "))
	return keys, nil
}

// publicKeys reads the public keys in the files of flags.
func publicKeys(ctx context.Context, app *shell.App, files []string) (keys []string, err error) {
	texts, err := app.ReadFiles(ctx, files)
	for _, f := range files {
		keys = append(keys, string(texts[f]))
	}
	return keys, err
}
