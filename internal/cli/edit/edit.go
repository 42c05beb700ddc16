// Package edit implements `kops edit`.
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

// Command returns the command.
func Command(app *shell.App) *cobra.Command {
	c := &cobra.Command{Use: "edit", Short: "Edit objects of the state store", Example: "  kops edit cluster cluster.example.com"}
	c.AddCommand(cluster(app), instanceGroup(app))
	return c
}

// change has the flags of one edit.
type change struct {
	set, unset []string
}

func (e *change) flags(c *cobra.Command) {
	c.Flags().StringSliceVar(&e.set, "set", nil, "set a field instead of opening an editor: `spec.path=value`; repeatable")
	c.Flags().StringSliceVar(&e.unset, "unset", nil, "clear a field instead of opening an editor: `spec.path`; repeatable")
}

func cluster(app *shell.App) *cobra.Command {
	var e change
	c := shell.Cobra("cluster [CLUSTER]", "Edit a cluster", `
Open the Cluster in your editor (KUBE_EDITOR, EDITOR or vi), check the edited text,
and store it. If the text has a mistake, the editor opens again with the mistake shown
above the text; to give up, leave the text unchanged or delete all of it. A stored
object that kops cannot parse is opened as it is, with the error above it. 'kops
update cluster' then changes the cloud.`, `
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
Open an InstanceGroup in your editor (KUBE_EDITOR, EDITOR or vi), check the edited
text, and store it.`, `
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
		unread, _ := d.cluster.Unread(d.object)
		app.Warn(unread) // it is lost, unless that is refused
		done, err = client.Clusters().SetFields(ctx, d.cluster, d.object, e.set, e.unset)
		stored = err == nil
	default:
		stored, err = inEditor(ctx, app, d, true, func(ctx context.Context, text []byte) (err error) {
			if d.cluster == nil {
				done, err = client.Clusters().RepairStored(ctx, name, d.object, text)
			} else {
				done, err = client.Clusters().SaveEdit(ctx, d.cluster, d.object, text)
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

// draft is an object to be edited.
type draft struct {
	object  api.Object
	text    []byte
	problem error         // what could not be parsed of the text; may be nil
	cluster *kops.Cluster // the object's cluster; nil if it cannot be read
}

// open reads a cluster, or one of its groups: known fields in their usual order, and unknown ones
// as stored.
func open(ctx context.Context, client *kops.Client, name, group string) (draft, error) {
	cl, err := client.Clusters().Get(ctx, name)
	unreadable := diag.List(nil)
	if errors.As(err, &unreadable) {
		o, text, terr := client.Clusters().ReadStored(ctx, name, group)
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
			unread[i].Warning = false // because it will be rejected when it is stored again
		}
		d.text, d.problem = []byte(text), unread
		return d, nil
	}
	d.text, err = compat.Encode(api.V1Alpha2, d.object)
	return d, err
}

// New opens the editor for an object that does not exist yet, stores the result, and reports
// whether it did.
func New(ctx context.Context, app *shell.App, obj api.Object, add func(ctx context.Context, text []byte) error) (bool, error) {
	text, err := compat.Encode(api.V1Alpha2, obj)
	if err != nil {
		return false, err
	}
	return inEditor(ctx, app, draft{object: obj, text: text}, false, add)
}

// inEditor opens the editor for an object, and reports whether the edited text was stored.
// Meanwhile ^C is for the editor: it does not stop this program.
func inEditor(ctx context.Context, app *shell.App, d draft, unchanged bool, accept func(context.Context, []byte) error) (bool, error) {
	ctx, done := signal.NotifyContext(context.WithoutCancel(ctx), syscall.SIGTERM, syscall.SIGHUP)
	defer done()
	return loop(ctx, app, d, unchanged, func(text []byte) error {
		ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
		defer stop()
		return accept(ctx, text)
	})
}

// loop opens the editor until the text is accepted, left unchanged, or emptied, and reports whether
// it was accepted. If unchanged is set, an untouched text is not submitted for acceptance.
func loop(ctx context.Context, app *shell.App, d draft, unchanged bool, accept func([]byte) error) (bool, error) {
	dir, err := os.MkdirTemp("", "kops-edit-")
	if err != nil {
		return false, fmt.Errorf("create a folder for the editor: %w", err)
	}
	file := filepath.Join(dir, d.object.GetName()+".yaml")
	text, problem, head := d.text, d.problem, "The stored object cannot be parsed. To leave it as it is, close the editor without changes."
	for refused := 0; ; {
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
		if errors.Is(problem, context.Canceled) { // by the user: do not open the editor again
			return false, fault.Wrap(fault.Of(problem), problem, "your text is kept in "+file)
		}
		if refused++; refused == attempts && !app.Interactive {
			return false, fmt.Errorf("edit cancelled after %d attempts, as nobody is at a terminal: %w; your text is kept in %s", refused, problem, file)
		}
	}
}

// attempts is how often a rejected text is edited again if the editor is not interactive.
const attempts = 3

const mark = "#! "

// comment formats a problem as lines above the text, and adjusts the line numbers in it
// accordingly.
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

// grace is how long an editor may take to exit after SIGTERM.
const grace = 5 * time.Second

// script returns the shell script that runs the user's editor on the file $1. Signals are for the
// editor: one command replaces the shell, and a shell that must run more than that, or a command of
// its own, does not end by ^C.
func script(editor string) string {
	run := editor + ` "$1"`
	own := slices.Contains([]string{"exec", "eval", "command"}, strings.Fields(editor + " .")[0])
	if own || strings.ContainsAny(editor, "=:;&|<>(){}\n`") {
		return "trap : INT; " + run
	}
	return "exec " + run
}

// launch runs the user's editor on a file.
func launch(ctx context.Context, app *shell.App, file string) error {
	editor := app.Env("KUBE_EDITOR")
	if editor == "" {
		editor = app.Env("EDITOR")
	}
	if editor == "" && !app.Interactive {
		return errors.New("no editor can be opened, as standard input is not a terminal; run the command at a terminal, or set EDITOR to a program that edits the file by itself")
	}
	if editor == "" {
		editor = "vi"
	}
	c := exec.CommandContext(ctx, "sh", "-c", script(editor), "sh", file) //nolint:gosec // the user's own editor
	c.Stdin, c.Stdout, c.Stderr = app.In, shell.Terminals(app.Err), shell.Terminals(app.Err)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) } // so that it can save what was written
	c.WaitDelay = grace
	defer app.LendTerminal()()
	if err := c.Run(); err != nil {
		return fmt.Errorf("run the editor %q: %w", editor, err)
	}
	return nil
}
