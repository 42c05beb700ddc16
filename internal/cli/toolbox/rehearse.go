package toolbox

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/spec/diag"
)

func rehearseCommand(app *shell.App) *cobra.Command {
	var cloud, root string
	clouds := playable(app)
	c := shell.Cobra("rehearse [--cloud CLOUD] [-- COMMAND [ARGUMENT]...]", "Emulate a cloud on this host", `
Emulate a cloud on this host, and run a command in it (default: a shell). kops,
kubectl and the cloud's own tools work in it without an account, as they would with
the real cloud. Clusters that you create there boot: each instance is a container on
this host with an address, a metadata service, a role, volumes and user data, and all
services answer under their real names. Machines fetch from the bundle of this host,
and cannot reach anything else.

The state store is a bucket in the rehearsal. When the command ends, everything is
removed, and the exit code of the command is returned. If a rehearsal was killed, the
next one in its folder removes its leftovers. Problems are reported on stderr;
with -v, all events are.

The command runs kops-rehearse, which is beside kops or in a folder of PATH. It needs
root, and everything that clusters on this host need.`, `
  # a shell in which the cloud is this host
  kops toolbox rehearse

  # a whole cluster
  kops toolbox rehearse -- sh -c '
    kops create cluster --zones us-east-1a --networking kubenet cluster.example.com
    kops update cluster cluster.example.com --yes --admin
    kops validate cluster --wait 10m
    kubectl get nodes'

  # remove the leftovers of a rehearsal that was killed
  kops toolbox rehearse -- true`,
		func(_ context.Context, args []string) error { return runRehearsal(app, cloud, root, args) })
	c.Args = cobra.ArbitraryArgs
	c.Flags().StringVar(&cloud, "cloud", clouds[0], "cloud to emulate: "+diag.Or(clouds))
	c.Flags().StringVar(&root, "dir", "", "folder of the rehearsal (default /var/lib/kops-rehearsal)")
	shell.Complete(c, "cloud", clouds...)
	return c
}

// rehearser is the program that emulates clouds. It is apart from kops, which does not link the
// emulators.
const rehearser = "kops-rehearse"

// runRehearsal becomes the program that emulates clouds.
func runRehearsal(app *shell.App, cloud, root string, args []string) error {
	path, err := findProgram(app, rehearser)
	if err != nil {
		return err
	}
	words := []string{rehearser, "--for", app.Version, "--cloud", cloud, "-v", strconv.Itoa(app.Verbosity)} // it may be of another release
	if root != "" {
		words = append(words, "--dir", root)
	}
	if app.Exec == nil {
		return fmt.Errorf("run %s: there are no programs", path)
	}
	dir := filepath.Dir(app.Program) // commands of the rehearsal find this kops
	env := withVariables(os.Environ(), "KOPS_BUNDLE="+app.Bundle(), "KOPS_BUILT="+app.Built(), "PATH="+dir+string(os.PathListSeparator)+app.Env("PATH"))
	if err := app.Exec(path, append(append(words, "--"), args...), env); err != nil {
		return fmt.Errorf("run %s: %w", path, err)
	}
	return nil
}

// findProgram returns the path of a program beside kops or, like plugins of kubectl, in PATH.
func findProgram(app *shell.App, name string) (string, error) {
	dirs := append([]string{filepath.Dir(app.Program)}, filepath.SplitList(app.Env("PATH"))...)
	for _, dir := range dirs {
		if !filepath.IsAbs(dir) {
			continue // it depends on the folder in which kops runs
		}
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", fault.Wrap(fault.Permanent, fmt.Errorf("rehearsals need the program %s, which is neither beside kops, in %s, nor in a folder of PATH", name, dirs[0]),
		"take it from the archive or the package of the same release for Linux, or build it with: make build")
}

// withVariables returns an environment with other values of some variables, NAME=VALUE.
func withVariables(env []string, set ...string) []string {
	out := slices.DeleteFunc(slices.Clone(env), func(have string) bool {
		name, _, _ := strings.Cut(have, "=")
		return slices.ContainsFunc(set, func(s string) bool { return strings.HasPrefix(s, name+"=") })
	})
	return append(out, set...)
}

// playable lists the platforms that can be emulated, the default first.
func playable(app *shell.App) []string {
	var out []string
	for _, p := range app.Platforms() {
		if p.Rehearsed && !slices.Contains(out, string(p.Name)) {
			out = append(out, string(p.Name))
		}
	}
	return out
}
