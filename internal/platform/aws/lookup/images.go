package lookup

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"golang.org/x/sync/errgroup"

	"kops.local/kops/internal/platform/aws/awsapi"
	"kops.local/kops/internal/platform/aws/spec"
	"kops.local/kops/internal/spec/asks"
	"kops.local/kops/internal/spec/facts"
)

// images looks up all images with up to three kinds of requests: by parameter, id and name.
func (a *resolver) images(ctx context.Context) error {
	wanted := map[string]spec.Image{}
	for _, n := range asks.Names(a.query.Images) {
		wanted[n] = spec.ParseImage(n)
	}
	if err := a.resolveParameters(ctx, wanted); err != nil {
		return err
	}
	var ids, owners, titles []string
	for _, w := range wanted {
		if w.ID != "" {
			ids = append(ids, w.ID)
		} else if w.Owner != "" {
			owners, titles = append(owners, w.Owner), append(titles, w.Names...)
		}
	}
	var byID, byName []types.Image
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		byID, err = a.describeImages(ctx, nil, "image-id", asks.Distinct(ids...))
		return err
	})
	g.Go(func() (err error) {
		byName, err = a.describeImages(ctx, asks.Distinct(owners...), "name", asks.Distinct(titles...))
		return err
	})
	if err := g.Wait(); err != nil {
		return err
	}
	a.facts.Images = map[string]facts.Image{}
	for text, w := range wanted {
		if i, ok := chooseImage(w, byID, byName); ok {
			a.facts.Images[text] = facts.Image{ID: aws.ToString(i.ImageId), RootDevice: aws.ToString(i.RootDeviceName), Architecture: string(i.Architecture)}
		}
	}
	return nil
}

// chooseImage returns the image that a spec refers to; if several have the name, the newest.
func chooseImage(w spec.Image, byID, byName []types.Image) (types.Image, bool) {
	var best types.Image
	found := false
	for _, i := range slices.Concat(byID, byName) {
		owned := w.Owner == "self" || w.Owner == aws.ToString(i.OwnerId) || w.Owner == aws.ToString(i.ImageOwnerAlias)
		if !(w.ID != "" && w.ID == aws.ToString(i.ImageId) || w.ID == "" && owned && slices.Contains(w.Names, aws.ToString(i.Name))) {
			continue
		}
		if !found || aws.ToString(i.CreationDate) > aws.ToString(best.CreationDate) {
			best, found = i, true
		}
	}
	return best, found
}

func (a *resolver) describeImages(ctx context.Context, owners []string, by string, values []string) ([]types.Image, error) {
	if len(values) == 0 {
		return nil, nil
	}
	var out []types.Image
	p := ec2.NewDescribeImagesPaginator(a.EC2, &ec2.DescribeImagesInput{Owners: owners,
		Filters: []types.Filter{{Name: &by, Values: values}}, IncludeDeprecated: aws.Bool(true)})
	for p.HasMorePages() {
		page, err := p.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("find machine images: %w", err)
		}
		out = append(out, page.Images...)
	}
	return out, nil
}

// resolveParameters replaces Systems Manager parameters by the image ids that they contain.
func (a *resolver) resolveParameters(ctx context.Context, wanted map[string]spec.Image) error {
	const most = 10 // names per call
	var paths []string
	for _, w := range wanted {
		paths = append(paths, w.Parameter)
	}
	for some := range slices.Chunk(asks.Distinct(paths...), most) {
		var o struct {
			Parameters []struct{ Name, Value string }
		}
		if err := a.SSM.Call(ctx, "GetParameters", awsapi.Fields{"Names": some}, &o); err != nil {
			return fmt.Errorf("read the parameters of machine images: %w", err)
		}
		for text, w := range wanted {
			for _, p := range o.Parameters {
				if w.Parameter != "" && w.Parameter == p.Name {
					wanted[text] = spec.Image{ID: p.Value}
				}
			}
		}
	}
	return nil
}
