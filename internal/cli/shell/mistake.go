package shell

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kops.local/kops/internal/spec/diag"
)

// UnknownCommand returns the error for a word that is not a command of c, with the command that was
// probably meant, if any.
func (a *App) UnknownCommand(c *cobra.Command, word string) error {
	hint := a.Meant(c, word)
	if hint == "" && strings.Contains(word, ".") && slices.Contains(commands(c), "cluster") {
		hint = fmt.Sprintf("did you mean %q?", c.CommandPath()+" cluster "+word)
	}
	if hint != "" {
		return Usagef("unknown command %q for %q; %s", word, c.CommandPath(), hint)
	}
	return Usagef("unknown command %q for %q", word, c.CommandPath())
}

// Meant says which command a word after c was meant for: one that does not exist here, or the
// nearest of c's own; "" if there is none.
func (a *App) Meant(c *cobra.Command, word string) string {
	if instead, ok := a.Absent[c.CommandPath()+" "+word]; ok {
		return "kops does not have this command of kOps; " + instead
	}
	if other := foreignWords()[c.CommandPath()+" "+word]; other != "" {
		return other
	}
	if other := foreignCommands()[word]; other != "" && !c.HasParent() {
		return fmt.Sprintf("did you mean %q?", c.CommandPath()+" "+other)
	}
	if near := diag.Nearest(word, commands(c)); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return ""
}

// foreignCommands returns commands of other tools, and their equivalents here.
func foreignCommands() map[string]string {
	return map[string]string{"list": "get", "ls": "get", "show": "get", "describe": "get all -o yaml", "status": "validate cluster", "check": "validate cluster",
		"plan": "update cluster", "diff": "update cluster", "preview": "update cluster", "apply": "update cluster --yes", "destroy": "delete cluster",
		"rm": "delete", "remove": "delete", "set": "edit cluster --set", "unset": "edit cluster --unset"}
}

// foreignWords returns words after a command for features that this program does not have, and what
// to use instead.
func foreignWords() map[string]string {
	const nodes, addons = "for the nodes: kubectl get nodes; for the machines: kops get instances", "add-ons are part of the Cluster: kops get cluster NAME -o yaml --full"
	return map[string]string{"kops get nodes": nodes, "kops get node": nodes, "kops get no": nodes, "kops get addons": addons, "kops get addon": addons}
}

// commands returns the names of c's commands.
func commands(c *cobra.Command) []string {
	var known []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			known = append(append(known, sub.Name()), sub.Aliases...)
		}
	}
	return known
}

// Usage describes in two lines how a command is called, so that the error above remains visible;
// --help has the rest.
func Usage(c *cobra.Command) string {
	if c.HasAvailableSubCommands() {
		usage := c.CommandPath() + " COMMAND"
		if own := c.UseLine(); c.Runnable() && own != c.CommandPath()+" [flags]" {
			usage += ", or " + own
		}
		return fmt.Sprintf("Usage: %s\nFor its commands: %s --help\n", usage, c.CommandPath())
	}
	return fmt.Sprintf("Usage: %s\nFor flags and examples: %s --help\n", c.UseLine(), c.CommandPath())
}

// FlagMistake explains what is wrong with a flag: the nearest one for a name that does not exist,
// or the required form of a value. If the words before it were meant for another command, the flag
// was meant for that one.
func (a *App) FlagMistake(c *cobra.Command, err error) error {
	if words := c.Flags().Args(); len(words) > 0 && a.Meant(c, words[0]) != "" {
		return a.UnknownCommand(c, words[0])
	}
	if absent := (*pflag.NotExistError)(nil); errors.As(err, &absent) && absent.GetSpecifiedShortnames() == "" {
		var known []string
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				known = append(known, f.Name)
			}
		})
		if near := diag.Nearest(absent.GetSpecifiedName(), known); near != "" {
			return Usagef("%w; did you mean --%s?", err, near)
		}
	}
	if bad := (*pflag.InvalidValueError)(nil); errors.As(err, &bad) {
		if v, ok := bad.GetFlag().Value.(*choice); ok {
			return Usagef("--%s: must be %s, got %q", bad.GetFlag().Name, diag.Or(v.known), bad.GetValue())
		}
		return Usagef("--%s: %q is not %s", bad.GetFlag().Name, bad.GetValue(), shape(bad.GetFlag().Value))
	}
	return &UsageError{err}
}

// shape describes the values of a flag.
func shape(v pflag.Value) string {
	switch v.Type() {
	case "int", "int32":
		return "a whole number"
	case "bool":
		return "true or false"
	case "duration":
		return "a duration such as 90s, 15m or 1h30m"
	case "stringSlice":
		return "a comma-separated list; quote each value that contains quotes or commas"
	}
	return "of the type " + v.Type()
}

// Choose adds a flag with a fixed set of values; its help shows kind as the type.
func Choose(c *cobra.Command, p *string, name, value, kind, usage string, known ...string) {
	*p = value
	c.Flags().Var(&choice{p, value, kind, known}, name, usage)
	Complete(c, name, known...)
}

// choice is a flag value that is one of the known ones, or its initial value.
type choice struct {
	value       *string
	first, kind string
	known       []string
}

func (c *choice) String() string { return *c.value }
func (c *choice) Type() string   { return c.kind }

// Set implements pflag.Value.
func (c *choice) Set(s string) error {
	if s != c.first && !slices.Contains(c.known, s) {
		return errors.New("unknown value")
	}
	*c.value = s
	return nil
}

// NoArguments rejects arguments of a command that takes none; hint says how to express what they
// may have been meant for.
func NoArguments(hint string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		err := "%s takes no arguments, but got %q"
		if hint != "" {
			err += "; " + hint
		}
		return Usagef(err, c.CommandPath(), args[0])
	}
}

// OneGroup rejects arguments that are not the name of one instance group.
func OneGroup(args []string) error {
	switch len(args) {
	case 0:
		return Usagef("specify one instance group")
	case 1:
		return nil
	}
	return Usagef("specify only one instance group: %s", strings.Join(args, ", "))
}

// instead annotates a former flag with its replacement.
const instead = "instead"

// Deprecate hides a flag and tells its users what to use instead.
func Deprecate(c *cobra.Command, flag, use string) {
	f := c.Flags().Lookup(flag)
	f.Hidden, f.Usage, f.Annotations = true, use, map[string][]string{instead: {use}}
}

// WarnDeprecated writes a line for each former flag on the command line to standard error; cobra's
// own notice would mix with the output.
func (a *App) WarnDeprecated(c *cobra.Command) {
	c.Flags().Visit(func(f *pflag.Flag) {
		if use := f.Annotations[instead]; len(use) > 0 {
			a.Notef("Flag --%s has been deprecated, %s\n", f.Name, use[0])
		}
	})
}
