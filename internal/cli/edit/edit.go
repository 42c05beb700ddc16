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
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"kops.local/kops"
	"kops.local/kops/api"
	"kops.local/kops/api/compat"
	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/spec/diag"
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
Open the Cluster in the editor that EDITOR names, check the edited text, and store it.
If the text has a mistake, the editor opens again with the mistake shown above the
text; to give up, leave the text unchanged or delete all of it. A stored object that
kops cannot parse is opened as it is, with the error above it. 'kops update cluster'
then changes the cloud.`, `
  kops edit cluster cluster.example.com
  EDITOR="code --wait" kops edit cluster cluster.example.com
  kops edit cluster cluster.example.com --set spec.kubernetesVersion=1.36.3`,
		func(ctx context.Context, args []string) error {
			name, err := app.ClusterName(args)
			if err != nil {
				return err
			}
			return run(ctx, app, name, "", e)
		})
	c.Aliases = []string{"clusters"}
	e.flags(c)
	c.ValidArgsFunction = shell.CompleteCluster(app)
	return c
}

func instanceGroup(app *shell.App) *cobra.Command {
	var e change
	c := shell.Cobra("instancegroup NAME", "Edit an instance group", `
Open an InstanceGroup in the editor that EDITOR names, check the edited text, and
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
			return run(ctx, app, name, args[0], e)
		})
	c.Aliases = []string{"instancegroups", "ig"}
	e.flags(c)
	c.ValidArgsFunction = shell.CompleteGroup(app)
	return c
}

// run edits a cluster, or one of its groups.
func run(ctx context.Context, app *shell.App, name, group string, e change) error {
	client, err := app.Client(ctx)
	if err != nil {
		return err
	}
	d, err := open(ctx, client, name, group)
	if err != nil {
		return err
	}
	var done kops.Written
	stored := false
	switch fields := len(e.set)+len(e.unset) > 0; {
	case fields && d.cluster == nil:
		return fmt.Errorf("%w\nto correct it, run the command without --set and --unset", d.problem)
	case fields:
		app.Warn(d.cluster.Warnings) // what was not understood is lost when the object is stored
		done, err = client.Clusters().SetFields(ctx, d.cluster, d.object, e.set, e.unset)
		stored = err == nil
	default:
		stored, err = inEditor(ctx, app, d, true, func(ctx context.Context, text []byte) (err error) {
			if d.cluster == nil {
				done, err = client.Clusters().Mended(ctx, name, d.object, text)
			} else {
				done, err = client.Clusters().Edited(ctx, d.cluster, d.object, text)
			}
			return err
		})
	}
	if !stored {
		return err
	}
	app.Warn(done.Warnings)
	if !done.Changed {
		app.Notef("No changes made: %s already has these values.\n", done.Name)
		return nil
	}
	app.Printf("Edited %s\n", done.Name)
	app.SuggestPreview(done)
	return nil
}

// draft is an object on its way to the editor.
type draft struct {
	object  api.Object
	text    []byte
	problem error         // what was not understood of the text; may be nil
	cluster *kops.Cluster // whose object it is; nil when it cannot be read
}

// open reads a cluster, or one of its groups: known fields in their own order, and unknown ones as
// they are stored.
func open(ctx context.Context, client *kops.Client, name, group string) (draft, error) {
	cl, err := client.Clusters().Get(ctx, name)
	unreadable := diag.List(nil)
	if errors.As(err, &unreadable) {
		o, text, terr := client.Clusters().Stored(ctx, name, group)
		return draft{object: o, text: []byte(text), problem: unreadable}, terr
	}
	if err != nil {
		return draft{}, err
	}
	d := draft{object: cl.Spec, cluster: cl}
	if group != "" {
		g, err := cl.SelectGroups(group)
		if err != nil {
			return draft{}, err
		}
		d.object = g[0]
	}
	if unread, text := cl.Unread(d.object); len(unread) > 0 {
		for i := range unread {
			unread[i].Warning = false // as it is refused when it is written again
		}
		d.text, d.problem = []byte(text), unread
		return d, nil
	}
	d.text, err = compat.Encode(api.V1Alpha2, d.object)
	return d, err
}

// New opens the editor on an object that does not exist yet, stores what is
// written, and reports whether it did.
func New(ctx context.Context, app *shell.App, obj api.Object, add func(ctx context.Context, text []byte) error) (bool, error) {
	text, err := compat.Encode(api.V1Alpha2, obj)
	if err != nil {
		return false, err
	}
	return inEditor(ctx, app, draft{object: obj, text: text}, false, add)
}

// inEditor opens the editor on an object, and reports whether the edited text is stored. Meanwhile
// ^C is for the editor: it does not stop this program.
func inEditor(ctx context.Context, app *shell.App, d draft, unchanged bool, accept func(context.Context, []byte) error) (bool, error) {
	ctx, done := signal.NotifyContext(context.WithoutCancel(ctx), syscall.SIGTERM, syscall.SIGHUP)
	defer done()
	return loop(ctx, app, d, unchanged, func(text []byte) error {
		ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
		defer stop()
		return accept(ctx, text)
	})
}

// loop opens the editor until the text is accepted, left as it was, or emptied, and
// reports whether it was accepted. With unchanged, a text that was not touched is
// nothing to accept.
func loop(ctx context.Context, app *shell.App, d draft, unchanged bool, accept func([]byte) error) (bool, error) {
	dir, err := os.MkdirTemp("", "kops-edit-")
	if err != nil {
		return false, fmt.Errorf("create a folder for the editor: %w", err)
	}
	file := filepath.Join(dir, d.object.GetName()+".yaml")
	text, problem, head := d.text, d.problem, "The stored object cannot be parsed. To leave it as it is, close the editor without changes."
	for {
		shown := append(comment(head, problem), text...)
		head = "The change was not accepted. To give up, close the editor without changes."
		if err := os.WriteFile(file, shown, 0o600); err != nil {
			return false, fmt.Errorf("write the file for the editor: %w", err)
		}
		failed := launch(ctx, app, file)
		edited, err := os.ReadFile(file)
		if err != nil {
			return false, errors.Join(failed, fmt.Errorf("read the edited file: %w", err))
		}
		before := text
		text = uncomment(edited)
		switch untouched := bytes.Equal(text, d.text); {
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

// comment writes a problem as lines above the text, and counts the lines that it names
// as the editor does.
func comment(head string, problem error) []byte {
	if problem == nil {
		return nil
	}
	lines := strings.Split(problem.Error(), "\n")
	var findings diag.List
	if errors.As(problem, &findings) && findings.Error() == problem.Error() {
		findings = slices.Clone(findings)
		for i := range findings {
			if findings[i].File = ""; findings[i].Line > 0 {
				findings[i].Line += len(lines) + 1
			}
		}
		lines = strings.Split(findings.Error(), "\n")
	}
	return []byte(mark + strings.Join(append([]string{head}, lines...), "\n"+mark) + "\n")
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

// grace is how long an editor that was asked to stop may take.
const grace = 5 * time.Second

// launch runs the user's editor on a file.
func launch(ctx context.Context, app *shell.App, file string) error {
	editor := app.Env("KUBE_EDITOR")
	if editor == "" {
		editor = app.Env("EDITOR")
	}
	if editor == "" {
		editor = "vi"
	}
	c := exec.CommandContext(ctx, "sh", "-c", editor+` "$1"`, "sh", file) //nolint:gosec // the user's own editor
	c.Stdin, c.Stdout, c.Stderr = app.In, shell.Terminals(app.Err), shell.Terminals(app.Err)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) } // so that it can keep what was written
	c.WaitDelay = grace
	defer app.KeepTerminal()()
	if err := c.Run(); err != nil {
		return fmt.Errorf("run the editor %q: %w", editor, err)
	}
	return nil
}
