package bundle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/model/assets"
	"kops.local/kops/internal/store/web"
)

// publishers are the public places of files and images.
type publishers struct {
	http     *http.Client
	keychain authn.Keychain
}

// file fetches a file and compares it with the digest that its publisher states: the known one, or
// else the one next to the file. It reports whether there was a digest to compare with.
func (p publishers) file(ctx context.Context, url, known string, w io.Writer) (compared bool, err error) {
	if known == "" {
		known = p.sum(ctx, url)
	}
	body, err := p.get(ctx, url)
	if err != nil {
		return false, err
	}
	defer body.Close() //nolint:errcheck // only read
	sum, err := copySum(w, body)
	if err != nil {
		return false, fmt.Errorf("fetch %s: %w", url, err)
	}
	if known != "" && sum != known {
		return true, fmt.Errorf("%s has the SHA-256 %s, but its publisher states %s", url, sum, known)
	}
	return known != "", nil
}

// sum returns the digest that a file's publisher states, or "" if there is none.
func (p publishers) sum(ctx context.Context, url string) string {
	for _, place := range (assets.Mirrors{}).Digests(url) {
		body, err := p.get(ctx, place)
		if err != nil {
			continue // few publishers state one; the caller reports that nothing was compared
		}
		text, err := web.Read(body, 1<<20)
		body.Close() //nolint:errcheck // only read
		if err != nil {
			continue
		}
		if sum, err := assets.ParseSHA256(text, path.Base(url)); err == nil {
			return sum
		}
	}
	return ""
}

func (p publishers) get(ctx context.Context, url string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := p.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close() //nolint:errcheck // not read
		return nil, fmt.Errorf("%s: %s", url, resp.Status)
	}
	return resp.Body, nil
}

// image fetches an image from its registry for some architectures. Its index stays as published,
// although it lists platforms that are not fetched, so that the digest is the publisher's. With a
// digest, that image is fetched even if the tag has moved.
func (p publishers) image(ctx context.Context, a *area, image, digest string, arches []download.Arch) error {
	tag, err := name.NewTag(image)
	if err != nil {
		return err
	}
	ref := name.Reference(tag)
	if digest != "" {
		ref = tag.Context().Digest(digest)
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(p.keychain)}
	if p.http.Transport != nil {
		options = append(options, remote.WithTransport(p.http.Transport))
	}
	got, err := remote.Get(ref, options...)
	if err != nil {
		return err
	}
	if !got.MediaType.IsIndex() {
		img, err := got.Image()
		if err != nil {
			return err
		}
		platform, err := a.addPublished(img)
		if err != nil {
			return err
		}
		if !slices.Contains(arches, download.Arch(platform.Architecture)) || len(arches) > 1 {
			return fmt.Errorf("%s is available only for %s", image, platform)
		}
		return a.record(image, Image{Digest: got.Digest.String(), Platforms: []string{platform.String()}, Source: Published})
	}
	index, err := got.ImageIndex()
	if err != nil {
		return err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	var platforms []string
	for _, arch := range arches {
		i := slices.IndexFunc(manifest.Manifests, func(d v1.Descriptor) bool {
			return d.Platform != nil && d.Platform.OS == "linux" && d.Platform.Architecture == string(arch)
		})
		if i < 0 {
			return fmt.Errorf("%s is not available for linux/%s", image, arch)
		}
		img, err := index.Image(manifest.Manifests[i].Digest)
		if err != nil {
			return err
		}
		if _, err := a.addPublished(img); err != nil {
			return err
		}
		platforms = append(platforms, manifest.Manifests[i].Platform.String())
	}
	if _, err := a.raw(got.MediaType, got.Manifest); err != nil {
		return err
	}
	slices.Sort(platforms)
	i, err := a.subset(Image{Digest: got.Digest.String(), Platforms: platforms, Source: Published}, *manifest, got.MediaType)
	if err != nil {
		return err
	}
	return a.record(image, i)
}

// addPublished adds the contents of a published image for one platform.
func (a *area) addPublished(img v1.Image) (*v1.Platform, error) {
	layers, err := img.Layers()
	if err != nil {
		return nil, err
	}
	for _, l := range layers {
		if err := a.layer(l); err != nil {
			return nil, err
		}
	}
	raw, err := img.RawConfigFile()
	if err != nil {
		return nil, err
	}
	manifest, err := img.RawManifest()
	if err != nil {
		return nil, err
	}
	for _, text := range [][]byte{raw, manifest} {
		if _, err := a.raw("", text); err != nil {
			return nil, err
		}
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	return config.Platform(), nil
}

// layer adds a layer as published; the library compares its digest.
func (a *area) layer(l v1.Layer) error {
	content, err := l.Compressed()
	if err != nil {
		return err
	}
	_, err = a.blob("", func(w io.Writer) error {
		_, err := io.Copy(w, content)
		return err
	})
	return errors.Join(err, content.Close())
}
