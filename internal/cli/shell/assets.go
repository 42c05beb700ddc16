package shell

import (
	"context"

	"kops.local/kops"
)

// Assets finds what a cluster fetches: the one described by files, for which no state store is
// needed, or else the one of --name. facts is a file, or "".
func (a *App) Assets(ctx context.Context, files []string, facts string, o kops.AssetsOptions) (*kops.Assets, error) {
	if facts != "" {
		known, err := a.ReadFacts(ctx, facts)
		if err != nil {
			return nil, err
		}
		o.Facts, a.Offline = known, true
	}
	if len(files) == 0 {
		name, client, err := a.Open(ctx, nil)
		if err != nil {
			return nil, err
		}
		cl, err := client.Clusters().Get(ctx, name)
		if err != nil {
			return nil, err
		}
		return client.Assets(ctx, cl, o)
	}
	objs, err := a.Decode(ctx, files)
	if err != nil {
		return nil, err
	}
	c := a.clientConfig("memory://described")
	c.Store.Backends = append(c.Store.Backends, kops.Memories())
	client, err := kops.New(ctx, c)
	if err != nil {
		return nil, err
	}
	cl, err := client.Clusters().Describe(objs)
	if err != nil {
		return nil, err
	}
	return client.Assets(ctx, cl, o)
}
