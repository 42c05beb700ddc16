package shell

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kops.local/kops"
)

// Complete adds fixed completions for the values of a flag.
func Complete(c *cobra.Command, flag string, values ...string) {
	OfferValues(c, flag, func() []string { return values })
}

// Choices adds values to the usage and the completions of a flag. They are only looked up when a user
// asks for either.
func Choices(c *cobra.Command, flag string, values func() []string) {
	OfferValues(c, flag, values)
	f := c.Flags().Lookup(flag)
	text := f.Usage
	c.SetUsageFunc(func(c *cobra.Command) error {
		f.Usage = text + ": " + strings.Join(values(), ", ")
		return c.Parent().UsageFunc()(c)
	})
}

// OfferValues completes a flag with values that may depend on the other flags.
func OfferValues(c *cobra.Command, flag string, values func() []string) {
	err := c.RegisterFlagCompletionFunc(flag, func(c *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		offered := values()
		if f := c.Flag(flag); f != nil && f.Value.Type() == "stringSlice" {
			offered = nextOfList(offered, typed)
		}
		return offered, cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic(err) // the flag does not exist: a bug in the command's declaration
	}
}

// nextOfList returns what a list that is separated by commas can become by one more value: shells match the
// completions to all that was typed.
func nextOfList(values []string, typed string) []string {
	end := strings.LastIndexByte(typed, ',') + 1
	given := strings.Split(typed[:end], ",")
	var out []string
	for _, v := range values {
		if !slices.Contains(given, v) {
			out = append(out, typed[:end]+v)
		}
	}
	return out
}

// completionTime limits how long shell completion waits for the state store.
const completionTime = 3 * time.Second

// CompleteCluster offers the names of the clusters in the state store for the one
// argument of a command.
func CompleteCluster(a *App) cobra.CompletionFunc { return firstOnly(CompleteClusters(a)) }

// CompleteClusters offers the names of the clusters in the state store, without those already
// given.
func CompleteClusters(a *App) cobra.CompletionFunc {
	return Offer(a, func(ctx context.Context, client *kops.Client, _ []string) ([]string, error) {
		return client.Clusters().Names(ctx)
	})
}

// CompleteGroup offers the instance groups of the cluster for the one argument of a command.
func CompleteGroup(a *App) cobra.CompletionFunc { return firstOnly(CompleteGroups(a)) }

// CompleteGroups offers the names of the cluster's instance groups, without those already given.
func CompleteGroups(a *App) cobra.CompletionFunc {
	return Offer(a, func(ctx context.Context, client *kops.Client, _ []string) ([]string, error) {
		return groups(ctx, a, client, nil)
	})
}

// CompleteGroupFlag offers, for a flag of a command whose argument is the cluster,
// the names of its instance groups.
func CompleteGroupFlag(a *App, c *cobra.Command, flag string) {
	err := c.RegisterFlagCompletionFunc(flag, Offer(a, func(ctx context.Context, client *kops.Client, args []string) ([]string, error) {
		return groups(ctx, a, client, args)
	}))
	if err != nil {
		panic(err) // as in Complete
	}
}

// CompleteSecrets offers the names of the cluster's secrets.
func CompleteSecrets(a *App) cobra.CompletionFunc {
	return Offer(a, func(ctx context.Context, client *kops.Client, _ []string) ([]string, error) {
		name, err := a.ClusterName(nil)
		if err != nil {
			return nil, err
		}
		return client.Secrets(nil).List(ctx, name)
	})
}

func groups(ctx context.Context, a *App, client *kops.Client, args []string) ([]string, error) {
	name, err := a.ExplicitName(args)
	if err != nil {
		return nil, err
	}
	if name == "" {
		name = a.contextCluster()
	}
	cl, err := client.Clusters().Get(ctx, name)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, g := range cl.Groups {
		names = append(names, g.Name)
	}
	return names, nil
}

// Offer completes with names from the state store, within the time limit; if they are not
// available, nothing is offered.
func Offer(a *App, names func(ctx context.Context, client *kops.Client, args []string) ([]string, error)) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(c.Context(), completionTime)
		defer cancel()
		var out []string
		if client, err := a.Client(ctx); err == nil {
			out, _ = names(ctx, client, args) // completion cannot show an error
		}
		out = slices.DeleteFunc(out, func(n string) bool { return slices.Contains(args, n) })
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

// firstOnly offers the results of f for the first argument, and nothing after it.
func firstOnly(f cobra.CompletionFunc) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f(c, args, start)
	}
}
