// Package edit holds `kops edit`.
package edit

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"kops.local/kops"
	"kops.local/kops/api"
	"kops.local/kops/api/compat"
	"kops.local/kops/internal/cli/shell"
)

// Command returns the verb.
func Command(app *shell.App) *cobra.Command {
	c := &cobra.Command{Use: "edit", Short: "Edit objects of the state store", Example: "  kops edit cluster cluster.example.com"}
	c.AddCommand(cluster(app), instanceGroup(app))
	return c
}

// change is what the flags of one edit say.
type change struct {
	set, unset []string
}

func (e *change) flags(c *cobra.Command) {
	c.Flags().StringSliceVar(&e.set, "set", nil, "set a field instead of opening an editor: spec.path=value; repeatable")
	c.Flags().StringSliceVar(&e.unset, "unset", nil, "clear a field instead of opening an editor: spec.path; repeatable")
}

func cluster(app *shell.App) *cobra.Command {
	var e change
	c := shell.Cobra("cluster [CLUSTER]", "Edit a cluster", `
Open the Cluster in the editor that EDITOR names, check what was written, and store
it. A mistake is shown above the text, and the editor opens again; to give up,
leave the text as it is. The cloud is changed by 'kops update cluster'.`, `
  kops edit cluster cluster.example.com
  EDITOR="code --wait" kops edit cluster cluster.example.com
  kops edit cluster cluster.example.com --set spec.kubernetesVersion=1.36.3`,
		func(ctx context.Context, args []string) error {
			name, err := app.ClusterName(args)
			if err != nil {
				return err
			}
			return run(ctx, app, name, e, func(c *kops.Cluster) (api.Object, error) { return c.Spec, nil })
		})
	e.flags(c)
	c.ValidArgsFunction = shell.CompleteClusters(app)
	return c
}

func instanceGroup(app *shell.App) *cobra.Command {
	var e change
	c := shell.Cobra("instancegroup NAME", "Edit an instance group", `
Open an InstanceGroup in the editor that EDITOR names, check what was written, and
store it.`, `
  kops edit instancegroup nodes-us-east-1c --name cluster.example.com
  kops edit ig nodes-us-east-1c --name cluster.example.com --set spec.maxSize=5 --set spec.minSize=5`,
		func(ctx context.Context, args []string) error {
			if len(args) != 1 {
				return shell.Usagef("name one instance group")
			}
			name, err := app.ClusterName(nil)
			if err != nil {
				return err
			}
			return run(ctx, app, name, e, func(c *kops.Cluster) (api.Object, error) {
				g, err := c.SelectGroups(args[0])
				if err != nil {
					return nil, err
				}
				return g[0], nil
			})
		})
	c.Aliases = []string{"instancegroups", "ig"}
	e.flags(c)
	c.ValidArgsFunction = shell.CompleteGroups(app)
	return c
}

func run(ctx context.Context, app *shell.App, name string, e change, pick func(*kops.Cluster) (api.Object, error)) error {
	client, err := app.Client(ctx)
	if err != nil {
		return err
	}
	cl, err := client.Cluster(ctx, name)
	if err != nil {
		return err
	}
	obj, err := pick(cl)
	if err != nil {
		return err
	}
	if len(e.set)+len(e.unset) > 0 {
		return client.SetFields(ctx, cl, obj, e.set, e.unset)
	}
	text, err := compat.Encode(api.V1Alpha2, obj)
	if err != nil {
		return err
	}
	return loop(ctx, app, obj.GetName(), text, true, func(text []byte) error { return client.Edited(ctx, cl, obj, text) })
}

// New opens the editor on an object that does not exist yet, and stores what is written.
func New(ctx context.Context, app *shell.App, obj api.Object, add func(text []byte) error) error {
	text, err := compat.Encode(api.V1Alpha2, obj)
	if err != nil {
		return err
	}
	return loop(ctx, app, obj.GetName(), text, false, add)
}

// loop opens the editor until the text is accepted, or left as it was. With
// unchanged, a text that was not touched is nothing to accept.
func loop(ctx context.Context, app *shell.App, name string, original []byte, unchanged bool, accept func([]byte) error) error {
	dir, err := os.MkdirTemp("", "kops-edit-")
	if err != nil {
		return fmt.Errorf("make a folder for the editor: %w", err)
	}
	file := filepath.Join(dir, name+".yaml")
	text, problem := original, error(nil)
	for {
		shown := append(comment(problem), text...)
		if err := os.WriteFile(file, shown, 0o600); err != nil {
			return fmt.Errorf("write for the editor: %w", err)
		}
		if err := open(ctx, app, file); err != nil {
			return fmt.Errorf("%w; your text is kept in %s", err, file)
		}
		edited, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read back from the editor: %w", err)
		}
		text = uncomment(edited)
		switch {
		case unchanged && bytes.Equal(text, original):
			app.Notef("Edit cancelled: no changes made.\n")
			return os.RemoveAll(dir)
		case problem != nil && bytes.Equal(edited, shown):
			return fmt.Errorf("edit cancelled: %w; your text is kept in %s", problem, file)
		}
		if problem = accept(text); problem == nil {
			return os.RemoveAll(dir)
		}
	}
}

const mark = "#! "

// comment writes a problem as lines above the text.
func comment(problem error) []byte {
	if problem == nil {
		return nil
	}
	var b strings.Builder
	b.WriteString(mark + "This was not accepted. To give up, leave the text as it is.\n")
	for line := range strings.SplitSeq(problem.Error(), "\n") {
		b.WriteString(mark + line + "\n")
	}
	return []byte(b.String())
}

// uncomment removes the lines that comment wrote.
func uncomment(text []byte) []byte {
	var out []byte
	for line := range bytes.Lines(text) {
		if !bytes.HasPrefix(line, []byte(mark)) {
			out = append(out, line...)
		}
	}
	return out
}

// open runs the user's editor on a file.
func open(ctx context.Context, app *shell.App, file string) error {
	editor := app.Env("KUBE_EDITOR")
	if editor == "" {
		editor = app.Env("EDITOR")
	}
	if editor == "" {
		editor = "vi"
	}
	c := exec.CommandContext(ctx, "sh", "-c", editor+` "$1"`, "sh", file) //nolint:gosec // the user's own editor
	c.Stdin, c.Stdout, c.Stderr = app.In, app.Err, app.Err
	if err := c.Run(); err != nil {
		return fmt.Errorf("run the editor %q: %w", editor, err)
	}
	return nil
}
