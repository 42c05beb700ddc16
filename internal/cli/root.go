// Package cli is the command line: flags in, text out. The path of a file below it is the command
// it implements: create/cluster.go is `kops create cluster`.
//
// It must not decide anything about clusters; package kops does.
package cli

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kops.local/kops"
	"kops.local/kops/internal/cli/bundle"
	"kops.local/kops/internal/cli/create"
	"kops.local/kops/internal/cli/deletion"
	"kops.local/kops/internal/cli/doctor"
	"kops.local/kops/internal/cli/edit"
	"kops.local/kops/internal/cli/etcd"
	"kops.local/kops/internal/cli/export"
	"kops.local/kops/internal/cli/get"
	"kops.local/kops/internal/cli/helpers"
	"kops.local/kops/internal/cli/keypairs"
	"kops.local/kops/internal/cli/licenses"
	"kops.local/kops/internal/cli/local"
	"kops.local/kops/internal/cli/reconcile"
	"kops.local/kops/internal/cli/replace"
	"kops.local/kops/internal/cli/rollingupdate"
	"kops.local/kops/internal/cli/rotate"
	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/cli/toolbox"
	"kops.local/kops/internal/cli/update"
	"kops.local/kops/internal/cli/upgrade"
	"kops.local/kops/internal/cli/validate"
	"kops.local/kops/internal/engine/fault"
)

// killed is the exit code of a command that was ended by an interrupt, as in shells.
const killed = 130

const (
	// answerTime is the time after which a command that was interrupted says that it has not ended.
	answerTime = 500 * time.Millisecond
	// leaveTime is the time after which it is left, if it can be. It may wait for what does not
	// end, such as a pipe that nobody writes to.
	leaveTime = 5 * time.Second
)

// Run runs one command line and returns the exit code. The first signal cancels the command's
// context. On an interrupt after that, Run returns while the command may still be working, for
// users who cannot wait, unless it is for an editor; the process must exit then. So it does after a
// while if the command holds no lease.
func Run(ctx context.Context, sys shell.System, args []string) int {
	app := shell.New(sys)
	app.Command, app.Absent = shell.CommandLine(args), absentCommands()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan int, 1)
	go func() { done <- run(ctx, app, args) }()
	var delayed, overdue <-chan time.Time
	for {
		select {
		case code := <-done:
			return code
		case <-delayed:
			app.Delayed()
		case <-overdue:
			if app.CanLeave() {
				app.Leave()
				return killed
			}
			overdue = time.After(leaveTime)
		case signal := <-sys.Signals:
			switch {
			case ctx.Err() == nil:
				app.Stopping()
				stop()
				delayed, overdue = time.After(answerTime), time.After(leaveTime)
			case signal == os.Interrupt && !app.Lent():
				app.Quit()
				return killed
			}
		}
	}
}

// run runs one command line to its end.
func run(ctx context.Context, app *shell.App, args []string) int {
	root := command(app)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	app.Phase("")
	if err == nil {
		err = app.Mistake
	}
	var code shell.Code
	var usage *shell.UsageError
	var refused *kops.Refused
	switch {
	case err == nil:
		return int(shell.Done)
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &usage):
		app.PrintError(err)
		app.Notef("%s", shell.Usage(cmd))
	case errors.As(err, &refused), errors.Is(err, kops.ErrDeclined), errors.Is(err, kops.ErrAborted):
		app.PrintError(err)
		return int(shell.Refused)
	case ctx.Err() != nil && errors.Is(err, context.Canceled): // what was being done is irrelevant
		app.PrintError(fault.Wrap(fault.Of(err), errors.New("interrupted"), fault.Remedy(err)))
	default:
		app.PrintError(err)
	}
	if ctx.Err() != nil || shell.WasInterrupted(err) {
		return killed
	}
	return int(shell.Failed)
}

func command(app *shell.App) *cobra.Command {
	root := &cobra.Command{
		Use:   "kops",
		Short: "kops creates, changes and deletes Kubernetes clusters",
		Long: `kops creates, changes and deletes Kubernetes clusters.

A Cluster object and its InstanceGroups describe a cluster. They are kept in a state
store: a folder or a bucket, set with --state or KOPS_STATE_STORE. Commands that
change a cloud show a preview; add --yes to make the changes.

Exit codes: 0 success or nothing to do, 1 an error, 2 changes are pending
(--detailed-exitcode) or the cluster is not valid, 3 the command was refused or
declined: another process holds the lease, a saved plan does not match, a version is
not allowed, a question was answered with no, or a rollout was aborted; 130
interrupted.`,
		Example: `  # Describe a cluster, preview its cloud resources, and create them
  export KOPS_STATE_STORE=s3://my-state-store
  kops create cluster --zones us-east-1c cluster.example.com
  kops update cluster cluster.example.com
  kops update cluster cluster.example.com --yes`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,

		PersistentPreRunE: func(c *cobra.Command, _ []string) error { return app.Start(c) },
	}
	root.SetIn(app.In)
	root.SetOut(app.Out)
	root.SetErr(app.Err)
	f := root.PersistentFlags()
	f.StringVar(&app.State, "state", "", "state store, such as s3://bucket, file:///folder or ./folder; overrides KOPS_STATE_STORE")
	f.StringVar(&app.Name, "name", "", "name of the cluster; overrides KOPS_CLUSTER_NAME")
	f.StringVar(&app.Config, "config", "", "config file (default ~/.kops.yaml or ~/.kops/config)")
	f.IntVarP(&app.Verbosity, "v", "v", 0, "how much to log on stderr: 0 progress, 1 phases, 2 requests")
	loggingFlags(f)
	root.SetFlagErrorFunc(app.FlagMistake)
	root.AddCommand(create.Command(app), get.Command(app), update.Command(app), replace.Command(app), rollingupdate.Command(app), edit.Command(app),
		deletion.Command(app), export.Command(app), etcd.Command(app), toolbox.Command(app), bundle.Command(app), helpers.Command(app), local.Command(app), validate.Command(app), doctor.Command(app), rotate.Command(app), version(app))
	root.AddCommand(keypairs.Commands(app)...)
	root.AddCommand(upgrade.Command(app), reconcile.Command(app))
	root.SetHelpCommand(help(app))
	show := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		if word := c.Flags().Arg(0); word != "" && c.Annotations[onlyCommands] != "" {
			app.Mistake = app.UnknownCommand(c, word)
			return
		}
		show(c, args)
	})
	root.InitDefaultCompletionCmd()
	verbs(app, root)
	root.Annotations = map[string]string{onlyCommands: "yes"}
	root.SetUsageFunc(usage(app))
	printsVersion(app, root)
	if err := root.RegisterFlagCompletionFunc("name", shell.CompleteClusters(app)); err != nil {
		panic(err) // the flag does not exist: a bug in the lines above
	}
	return root
}

// absentCommands returns the commands of kOps that this program does not have, and what to use
// instead.
func absentCommands() map[string]string {
	return map[string]string{
		"kops toolbox addons":            "add the add-on's objects to the cluster's file for kops create -f or kops replace -f, or apply them with kubectl",
		"kops toolbox clusterapi":        "create a group of machines with kops create instancegroup",
		"kops toolbox instance-selector": "choose a machine type, and set it in spec.machineType or spec.mixedInstancesPolicy.instances of a group",
		"kops gen-cli-docs":              "every command has --help",
	}
}

// environment is the help topic about the variables that kops reads.
const environment = "environment"

// help returns the help command; a command that does not exist is a usage error.
func help(app *shell.App) *cobra.Command {
	var c *cobra.Command
	c = shell.Cobra("help [COMMAND]...", "Show help for a command", `
Show what a command does, its flags and examples, as --help does. 'kops help
environment' lists the environment variables and the configuration file that kops
reads.`, `
  kops help create cluster
  kops help environment`,
		func(_ context.Context, args []string) error {
			if len(args) == 1 && args[0] == environment {
				return app.PrintEnvironment()
			}
			found, rest, err := c.Root().Find(args)
			if err != nil {
				return err
			}
			if len(rest) > 0 {
				return app.UnknownCommand(found, rest[0])
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		})
	c.ValidArgsFunction = func(_ *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
		var known []string
		if len(args) == 0 && strings.HasPrefix(environment, start) {
			known = append(known, environment)
		}
		if found, _, err := c.Root().Find(args); err == nil {
			for _, sub := range found.Commands() {
				if sub.IsAvailableCommand() && strings.HasPrefix(sub.Name(), start) {
					known = append(known, sub.Name())
				}
			}
		}
		return known, cobra.ShellCompDirectiveNoFileComp
	}
	return c
}

// verbs makes each command without an action of its own report an unknown word, with the nearest
// known one.
func verbs(app *shell.App, c *cobra.Command) {
	for _, sub := range c.Commands() {
		if sub.HasSubCommands() && !sub.Runnable() {
			sub.RunE, sub.Args, sub.Annotations = needsSubcommand(app), cobra.ArbitraryArgs, map[string]string{onlyCommands: "yes"}
		}
		verbs(app, sub)
	}
}

// onlyCommands annotates a command whose arguments can only be names of commands.
const onlyCommands = "only commands"

func needsSubcommand(app *shell.App) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		return app.UnknownCommand(c, args[0])
	}
}

// loggingFlags adds the flags of kOps' logging, so that scripts that use them still work. They have
// no effect: the output depends on -v alone.
func loggingFlags(f *pflag.FlagSet) {
	for _, name := range []string{"add_dir_header", "alsologtostderr", "logtostderr", "one_output", "skip_headers", "skip_log_headers", "legacy_stderr_threshold_behavior"} {
		f.Bool(name, false, "accepted for compatibility; has no effect")
	}
	for _, name := range []string{"log_backtrace_at", "log_dir", "log_file", "log_file_max_size", "stderrthreshold", "vmodule", "alsologtostderrthreshold"} {
		f.String(name, "", "accepted for compatibility; has no effect")
	}
	f.VisitAll(func(flag *pflag.Flag) {
		flag.Hidden = flag.Hidden || flag.Usage == "accepted for compatibility; has no effect"
	})
}

// printsVersion adds the flag --version to the root command.
func printsVersion(app *shell.App, root *cobra.Command) {
	wanted := root.Flags().Bool("version", false, "version for kops")
	root.RunE = func(c *cobra.Command, args []string) error {
		if *wanted {
			app.Printf("Client version: %s\n", app.Version)
			return nil
		}
		return needsSubcommand(app)(c, args)
	}
}

func version(app *shell.App) *cobra.Command {
	var short, server, texts bool
	var format string
	c := shell.Cobra("version", "Print the version of kops",
		"Print the version of kops. With --server, also print the version that last applied the\ncluster; with --licenses, list the linked modules.",
		`
  kops version
  kops version --short
  kops version --licenses
  kops version -o json
  kops version --server --name cluster.example.com`,
		func(ctx context.Context, args []string) error {
			if short {
				app.Printf("%s\n", app.Version)
				return nil
			}
			if texts {
				app.Printf("%s", licenses.ThirdParty())
				return nil
			}
			return versions(ctx, app, format, server)
		})
	c.Args = shell.NoArguments("")
	c.Flags().BoolVar(&short, "short", false, "print only the version")
	c.Flags().BoolVar(&texts, "licenses", false, "list the modules that kops' binaries link, and their licences")
	c.Flags().StringVarP(&format, "output", "o", "", "format: yaml or json")
	shell.Complete(c, "output", shell.YAML, shell.JSON)
	c.Flags().BoolVar(&server, "server", false, "also print the version that last applied the cluster")
	return c
}

// versions prints the version of this program and, with server, the one that last applied the
// cluster.
func versions(ctx context.Context, app *shell.App, format string, server bool) error {
	if format != "" {
		if err := shell.CheckFormat(format, shell.JSON, shell.YAML); err != nil {
			return err
		}
	}
	out := struct {
		Client  string `json:"clientVersion"`
		Applied string `json:"lastAppliedServerVersion,omitempty"`
	}{Client: app.Version}
	if server {
		name, client, err := app.Open(ctx, nil)
		if err == nil {
			out.Applied, err = client.AppliedVersion(ctx, name)
		}
		if err != nil {
			return err
		}
	}
	return app.PrintAs(format, out, func() error {
		app.Printf("Client version: %s\n", out.Client)
		if server {
			app.Printf("Last applied server version: %s\n", out.Applied)
		}
		return nil
	})
}
