package kinds

import (
	"context"

	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/local/image"
	"kops.local/kops/internal/platform/local/keeper"
	"kops.local/kops/internal/platform/local/site"
)

// Image is the root folder that machines boot from. It is built once, in the user's
// cache, and stays there: the cluster only records that it uses it.
type Image struct {
	Cluster string `res:"replace"`
	// Release of Debian; empty means image.DefaultRelease.
	Release string `res:"replace"`
	// Packages are installed in addition to the packages of every image.
	Packages []string `res:"replace"`
	// Mirror of Debian; empty means image.DefaultMirror. It is not compared.
	Mirror string `res:"writeonly"`

	ID   string `res:"out,id" out:"id"` // the digest of its recipe
	Path string `res:"out" out:"path"`  // its root folder
}

// Images is the kind of Image.
var Images = resource.Kind[Image, *Client]{
	Name: "local_image", Direct: true, API: api, Phase: resource.Network, Tasks: []string{"Image"},
	Key:    func(i *Image) string { return i.recipe().Digest() },
	List:   listImages,
	Create: createImage,
	Delete: func(ctx context.Context, c *Client, i *Image) error {
		return c.withLock(ctx, i.Cluster, func(s site.Site) error { return keeper.Remove(keeper.File(s, site.Images, i.recipe().Digest())) })
	},
}

func (i *Image) recipe() image.Recipe {
	return image.Recipe{Release: i.Release, Mirror: i.Mirror, Packages: i.Packages}
}

// imageRecord is a cluster's record of an image that it uses.
type imageRecord struct {
	Release  string
	Packages []string
}

// listImages lists the images that the cluster uses and that are still in the cache.
func listImages(_ context.Context, c *Client, s resource.Scope) ([]*Image, error) {
	here, err := c.site(s.Cluster)
	if err != nil {
		return nil, err
	}
	names, err := site.List(here.Path(site.Images))
	if err != nil {
		return nil, err
	}
	var out []*Image
	for _, name := range names {
		var n imageRecord
		ok, err := site.ReadJSON(here.Path(site.Images, name), &n)
		if err != nil {
			return nil, err
		}
		i := &Image{Cluster: s.Cluster, Release: n.Release, Packages: n.Packages}
		i.outputs(c)
		if ok {
			ok, err = i.recipe().Exists(c.Cache)
		}
		if err != nil {
			return nil, err
		}
		if ok || s.All {
			out = append(out, i)
		}
	}
	return out, nil
}

func (i *Image) outputs(c *Client) { i.ID, i.Path = i.recipe().Digest(), i.recipe().Root(c.Cache) }

func createImage(ctx context.Context, c *Client, i *Image) error {
	if _, err := i.recipe().Ensure(ctx, c.Cache, c.Log); err != nil {
		return err
	}
	i.outputs(c)
	return c.withLock(ctx, i.Cluster, func(s site.Site) error {
		return site.WriteJSON(keeper.File(s, site.Images, i.ID), imageRecord{i.Release, i.Packages})
	})
}
