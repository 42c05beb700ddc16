package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kops.local/kops/internal/cli/shell"
)

// usage returns a function that writes how a command is called, its subcommands and its flags.
// Cobra's templates would do that too, but they look up methods by name, and a program that does so
// keeps every method of everything that it links.
func usage(app *shell.App) func(*cobra.Command) error {
	return func(c *cobra.Command) error {
		var b strings.Builder
		b.WriteString("Usage:")
		if c.Runnable() {
			b.WriteString("\n  " + c.UseLine())
		}
		if c.HasAvailableSubCommands() {
			b.WriteString("\n  " + c.CommandPath() + " [command]")
		}
		if len(c.Aliases) > 0 {
			b.WriteString("\n\nAliases:\n  " + c.NameAndAliases())
		}
		if c.HasExample() {
			b.WriteString("\n\nExamples:\n" + c.Example)
		}
		if c.HasAvailableSubCommands() {
			b.WriteString("\n\nAvailable Commands:")
			for _, sub := range c.Commands() {
				if sub.IsAvailableCommand() || sub.Name() == "help" {
					fmt.Fprintf(&b, "\n  %-*s %s", sub.NamePadding(), sub.Name(), sub.Short)
				}
			}
		}
		if c.HasAvailableLocalFlags() {
			b.WriteString("\n\nFlags:\n" + flagUsages(app, c.LocalFlags()))
		}
		if c.HasAvailableInheritedFlags() {
			b.WriteString("\n\nGlobal Flags:\n" + flagUsages(app, c.InheritedFlags()))
		}
		if c.HasAvailableSubCommands() {
			fmt.Fprintf(&b, "\n\nUse %q for more information about a command.", c.CommandPath()+" [command] --help")
		}
		_, err := fmt.Fprintln(c.OutOrStderr(), b.String())
		return err
	}
}

// flagUsages lists flags, wrapped to the width of help texts.
func flagUsages(app *shell.App, f *pflag.FlagSet) string {
	return strings.TrimRight(f.FlagUsagesWrapped(app.HelpWidth()), " \n\t")
}
