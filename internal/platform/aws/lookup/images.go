package lookup

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"golang.org/x/sync/errgroup"

	"kops.local/kops/internal/platform/aws/awsapi"
	"kops.local/kops/internal/spec/asks"
	"kops.local/kops/internal/spec/facts"
)

// imageName is a machine image in a spec, parsed.
type imageName struct {
	id        string   // "ami-…"
	parameter string   // of Systems Manager: "/aws/service/…"
	owner     string   // an account, or "self"
	names     []string // possible names of the image
}

// imageAccount returns the account of a publisher's well-known name, or owner itself.
func imageAccount(owner string) string {
	switch owner {
	case "amazon", "amazon.com":
		return "137112412989"
	case "ubuntu":
		return "099720109477"
	case "redhat", "redhat.com":
		return "309956199498"
	case "flatcar":
		return "075585003325"
	}
	return owner
}

// parseImage parses the forms ami-…, ssm:/path, owner/name, and name for an image of the caller's
// own. Some publishers' image names begin with the publisher's name, as in ubuntu/images/…, so the
// whole text may be the name.
func parseImage(text string) imageName {
	if path, ok := strings.CutPrefix(text, "ssm:"); ok {
		return imageName{parameter: path}
	}
	if strings.HasPrefix(text, "ami-") {
		return imageName{id: text}
	}
	owner, name, ok := strings.Cut(text, "/")
	if !ok {
		return imageName{owner: "self", names: []string{text}}
	}
	if account := imageAccount(owner); account != owner {
		return imageName{owner: account, names: []string{name, text}}
	}
	return imageName{owner: owner, names: []string{name}}
}

// images looks up all images with up to three kinds of requests: by parameter, id and name.
func (a *resolver) images(ctx context.Context) error {
	wanted := map[string]imageName{}
	for _, n := range asks.Names(a.query.Images) {
		wanted[n] = parseImage(n)
	}
	if err := a.resolveParameters(ctx, wanted); err != nil {
		return err
	}
	var ids, owners, titles []string
	for _, w := range wanted {
		if w.id != "" {
			ids = append(ids, w.id)
		} else if w.owner != "" {
			owners, titles = append(owners, w.owner), append(titles, w.names...)
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
func chooseImage(w imageName, byID, byName []types.Image) (types.Image, bool) {
	var best types.Image
	found := false
	for _, i := range slices.Concat(byID, byName) {
		owned := w.owner == "self" || w.owner == aws.ToString(i.OwnerId) || w.owner == aws.ToString(i.ImageOwnerAlias)
		if !(w.id != "" && w.id == aws.ToString(i.ImageId) || w.id == "" && owned && slices.Contains(w.names, aws.ToString(i.Name))) {
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
func (a *resolver) resolveParameters(ctx context.Context, wanted map[string]imageName) error {
	const most = 10 // names per call
	var paths []string
	for _, w := range wanted {
		paths = append(paths, w.parameter)
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
				if w.parameter != "" && w.parameter == p.Name {
					wanted[text] = imageName{id: p.Value}
				}
			}
		}
	}
	return nil
}
