// Package edit holds `kops edit`.
package edit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"kops.local/kops"
	"kops.local/kops/api"
	"kops.local/kops/api/compat"
	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/fault"
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
leave the text as it is, or empty it. The cloud is changed by 'kops update cluster'.`, `
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
	c.Aliases = []string{"clusters"}
	e.flags(c)
	c.ValidArgsFunction = shell.CompleteCluster(app)
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
			if err := shell.OneGroup(args); err != nil {
				return err
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
	c.ValidArgsFunction = shell.CompleteGroup(app)
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
	app.Warn(cl.Warnings) // what was not understood is lost when the object is stored
	obj, err := pick(cl)
	if err != nil {
		return err
	}
	stored := false
	var done kops.Written
	if len(e.set)+len(e.unset) > 0 {
		done, err = client.SetFields(ctx, cl, obj, e.set, e.unset)
		stored = err == nil
	} else {
		stored, err = inEditor(ctx, app, obj, true, func(ctx context.Context, text []byte) (err error) {
			done, err = client.Edited(ctx, cl, obj, text)
			return err
		})
	}
	if !stored {
		return err
	}
	app.Warn(done.Warnings)
	if !done.Changed {
		app.Notef("No changes made: %s says so already.\n", done.Name)
		return nil
	}
	app.Printf("Edited %s\n", done.Name)
	app.SuggestPreview(done)
	return nil
}

// New opens the editor on an object that does not exist yet, stores what is
// written, and reports whether it did.
func New(ctx context.Context, app *shell.App, obj api.Object, add func(ctx context.Context, text []byte) error) (bool, error) {
	return inEditor(ctx, app, obj, false, add)
}

// inEditor opens the editor on an object, and reports whether what was written is
// stored. Meanwhile ^C is for the editor: it does not stop this program.
func inEditor(ctx context.Context, app *shell.App, obj api.Object, unchanged bool, accept func(context.Context, []byte) error) (bool, error) {
	text, err := compat.Encode(api.V1Alpha2, obj)
	if err != nil {
		return false, err
	}
	ctx, done := signal.NotifyContext(context.WithoutCancel(ctx), syscall.SIGTERM)
	defer done()
	return loop(ctx, app, obj.GetName(), text, unchanged, func(text []byte) error {
		ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
		defer stop()
		return accept(ctx, text)
	})
}

// loop opens the editor until the text is accepted, left as it was, or emptied, and
// reports whether it was accepted. With unchanged, a text that was not touched is
// nothing to accept.
func loop(ctx context.Context, app *shell.App, name string, original []byte, unchanged bool, accept func([]byte) error) (bool, error) {
	dir, err := os.MkdirTemp("", "kops-edit-")
	if err != nil {
		return false, fmt.Errorf("make a folder for the editor: %w", err)
	}
	file := filepath.Join(dir, name+".yaml")
	text, problem := original, error(nil)
	for {
		shown := append(comment(problem), text...)
		if err := os.WriteFile(file, shown, 0o600); err != nil {
			return false, fmt.Errorf("write for the editor: %w", err)
		}
		failed := open(ctx, app, file)
		edited, err := os.ReadFile(file)
		if err != nil {
			return false, errors.Join(failed, fmt.Errorf("read back from the editor: %w", err))
		}
		before := text
		text = uncomment(edited)
		switch untouched := bytes.Equal(text, original); {
		case failed != nil && untouched:
			return false, errors.Join(failed, os.RemoveAll(dir))
		case failed != nil:
			return false, fmt.Errorf("%w; your text is kept in %s", failed, file)
		case unchanged && untouched:
			app.Notef("Edit cancelled: no changes made.\n")
			return false, os.RemoveAll(dir)
		case len(bytes.TrimSpace(text)) == 0:
			app.Notef("Edit cancelled: the text is empty.\n")
			return false, os.RemoveAll(dir)
		case problem != nil && bytes.Equal(text, before):
			return false, fmt.Errorf("edit cancelled: %w; your text is kept in %s", problem, file)
		}
		if problem = accept(text); problem == nil {
			return true, os.RemoveAll(dir)
		}
		if errors.Is(problem, context.Canceled) { // by the user, for whom the editor is not opened again
			return false, fault.Wrap(fault.Of(problem), problem, "your text is kept in "+file)
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
	c.Stdin, c.Stdout, c.Stderr = app.In, shell.Terminals(app.Err), shell.Terminals(app.Err)
	if err := c.Run(); err != nil {
		return fmt.Errorf("run the editor %q: %w", editor, err)
	}
	return nil
}
