package shell

import (
	"context"
	"time"

	"github.com/spf13/cobra"
)

// Complete offers fixed values for a flag.
func Complete(c *cobra.Command, flag string, values ...string) {
	err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // the flag does not exist: a mistake in the command's declaration
	}
}

// completionTime bounds how long a shell waits for the state store.
const completionTime = 3 * time.Second

// CompleteClusters offers the names of the clusters in the state store.
func CompleteClusters(a *App) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(c.Context(), completionTime)
		defer cancel()
		client, err := a.Client(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names, err := client.ClusterNames(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteGroups offers the names of the cluster's instance groups.
func CompleteGroups(a *App) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(c.Context(), completionTime)
		defer cancel()
		name, err := a.ExplicitName(nil)
		if err != nil || name == "" {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		client, err := a.Client(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		cl, err := client.Cluster(ctx, name)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []string
		for _, g := range cl.Groups {
			names = append(names, g.Name)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
