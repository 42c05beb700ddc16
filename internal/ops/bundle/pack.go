package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/contract/programs"
	"kops.local/kops/internal/ops/delivery"
)

// Pack writes the archive of kops' own programs for machines of the architectures, from a folder
// such as Options.OwnPrograms. The same programs give the same archive.
func Pack(w io.Writer, own, version string, arches []download.Arch, progress func(string)) (*programs.Index, error) {
	p := &packer{folders: folders{own: own}, version: version, report: progress,
		index: &programs.Index{Version: version, Nodeup: map[download.Arch]programs.File{}, Images: map[string]programs.Image{}}}
	for _, a := range arches {
		if err := p.nodeup(a); err != nil {
			return nil, err
		}
	}
	for _, r := range imageRecipes() {
		if program, ok := strings.CutPrefix(r.repository, programs.Registry+"/"); ok && r.isOwn {
			if err := p.image(program, r, arches); err != nil {
				return nil, err
			}
		}
	}
	return p.index, p.write(w)
}

// packer collects the files of an archive.
type packer struct {
	folders folders
	version string
	report  func(string)
	index   *programs.Index
	files   []reportMissingRecipes
}

type reportMissingRecipes struct {
	programs.File
	data []byte
}

// add adds a file, and returns its entry in the index.
func (p *packer) add(path string, data []byte, program string) programs.File {
	sum := sha256.Sum256(data)
	f := programs.File{Path: path, SHA256: hex.EncodeToString(sum[:]), Size: int64(len(data)), Program: program}
	p.files = append(p.files, reportMissingRecipes{f, data})
	return f
}

func (p *packer) nodeup(arch download.Arch) error {
	p.report("packing nodeup for " + string(arch))
	in, err := p.folders.find("", "nodeup", arch)
	if err != nil {
		return fmt.Errorf("pack nodeup: %w", err)
	}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return fmt.Errorf("pack nodeup: %w", err)
	}
	sum := sha256.New()
	if err := in.copy(io.MultiWriter(z, sum)); err != nil {
		return fmt.Errorf("pack nodeup: %w", err)
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("pack nodeup: %w", err)
	}
	p.index.Nodeup[arch] = p.add("linux/"+string(arch)+"/nodeup-"+string(arch)+".gz", b.Bytes(), hex.EncodeToString(sum.Sum(nil)))
	return nil
}

// image packs the image of a program. Its tag depends on its content: a machine that already has an
// image of that name does not fetch it again.
func (p *packer) image(program string, r imageRecipe, arches []download.Arch) error {
	p.report("packing " + program)
	trees, err := r.trees(p.folders, p.version, arches)
	if err != nil {
		return fmt.Errorf("pack the image of %s: %w", program, err)
	}
	images, all := map[download.Arch]v1.Image{}, sha256.New()
	for _, a := range arches {
		i, err := buildImage(trees[a], r, a)
		if err != nil {
			return fmt.Errorf("pack the image of %s: %w", program, err)
		}
		id, err := i.ConfigName()
		if err != nil {
			return fmt.Errorf("pack the image of %s: %w", program, err)
		}
		fmt.Fprintln(all, a, id) //nolint:errcheck // a hash takes everything
		images[a] = i
	}
	version := strings.ReplaceAll(p.version, "+", "-") // "+" is not allowed in tags
	out := programs.Image{Name: programs.ImageName(program, version+"-"+hex.EncodeToString(all.Sum(nil))[:12]), Archives: map[download.Arch]programs.File{}}
	tag, err := name.NewTag(out.Name)
	if err != nil {
		return fmt.Errorf("pack the image of %s: %w", program, err)
	}
	for _, a := range arches {
		var b bytes.Buffer
		if err := tarball.Write(tag, images[a], &b); err != nil {
			return fmt.Errorf("pack the image of %s: %w", program, err)
		}
		out.Archives[a] = p.add("images/"+program+"-"+string(a)+".tar", b.Bytes(), "")
	}
	p.index.Images[program] = out
	return nil
}

// buildImage builds an image with one compressed layer.
func buildImage(t tree, r imageRecipe, arch download.Arch) (v1.Image, error) {
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		out, in := io.Pipe()
		go func() { in.CloseWithError(t.tar(in)) }()
		return out, nil
	}, tarball.WithCompressionLevel(gzip.DefaultCompression))
	if err != nil {
		return nil, err
	}
	i, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	c, err := i.ConfigFile()
	if err != nil {
		return nil, err
	}
	c = c.DeepCopy()
	c.Created, c.History = v1.Time{Time: time.Unix(0, 0).UTC()}, nil
	c.OS, c.Architecture = "linux", string(arch)
	c.Config = v1.Config{Env: []string{"PATH=" + searchPath}, Entrypoint: r.entrypoint, Cmd: r.cmd, User: r.user, WorkingDir: "/"}
	return mutate.ConfigFile(i, c)
}

// write writes the archive: its index, and then the files in order of their names.
func (p *packer) write(w io.Writer) error {
	text, err := delivery.Encode(p.index)
	if err != nil {
		return err
	}
	slices.SortFunc(p.files, func(a, b reportMissingRecipes) int { return strings.Compare(a.Path, b.Path) })
	t := tar.NewWriter(w)
	for _, f := range append([]reportMissingRecipes{{programs.File{Path: delivery.IndexName}, text}}, p.files...) {
		h := &tar.Header{Name: f.Path, Mode: 0o644, Size: int64(len(f.data)), ModTime: time.Unix(0, 0), Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
		if err := t.WriteHeader(h); err != nil {
			return fmt.Errorf("write %s: %w", f.Path, err)
		}
		if _, err := t.Write(f.data); err != nil {
			return fmt.Errorf("write %s: %w", f.Path, err)
		}
	}
	if err := t.Close(); err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	return nil
}
